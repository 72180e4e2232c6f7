//! Closes and access times: told to the homes a few at a time, soon after.
//!
//! Nobody waits for them, and many in a row cost far less than each for itself between other requests. What this session
//! does itself never meets an inode that it has closed as open, nor an access time as it was before a read: requests that
//! could tell ([`would_notice`]) have everything told first.

use crate::fs::FsOp;
use crate::fs::describe::Shows;
use crate::limits::{LATER_MAX, LATER_US};
use crate::op::Op;
use crate::session::AccessTimes;
use crate::state::{Job, Later, State};
use onpath_kernel::Core;
use onpath_wire::ids::InodeId;

/// Tells a home soon.
pub(crate) fn add(core: &mut Core<State>, what: Later) {
    let state = &mut core.state;
    state.later.push(what);
    if state.later.len() >= LATER_MAX {
        return tell_now(core);
    }
    if !state.tells_later {
        state.tells_later = true;
        core.start(Job::TellLater);
    }
}

/// Something was read: its home hears of it if that is `due` by relatime, or `always` if every read counts.
pub(crate) fn accessed(core: &mut Core<State>, id: InodeId, due: bool, always: bool) {
    let times = core.state.config.access_times;
    if !times.never && (due || times.always && always) && !core.state.later.contains(&Later::Accessed(id)) {
        add(core, Later::Accessed(id));
    }
}

/// From now on these access times move. If none does, those of reads of just before do not either: nothing is written any more.
pub(crate) fn access_times(core: &mut Core<State>, times: AccessTimes) {
    core.state.config.access_times = times;
    if times.never {
        core.state.later.retain(|what| !matches!(what, Later::Accessed(_)));
    }
}

/// Tells everything now.
pub(crate) fn tell_now(core: &mut Core<State>) {
    let mut later = std::mem::take(&mut core.state.later);
    for what in later.drain(..) {
        if let Later::Accessed(id) = what {
            core.state.accessing.push(id);
        }
        core.start(match what {
            Later::Accessed(id) => Job::Accessed { id },
            Later::Close(id) => Job::Close { id },
        });
    }
    core.state.later = later;
}

/// Whether the answer to a request may show that something has not been told yet.
pub(crate) fn would_notice(later: &[Later], op: &FsOp) -> bool {
    !later.is_empty()
        && match op.describe().shows {
            Shows::Nothing => false,
            Shows::Access(id) => later.contains(&Later::Accessed(id)),
            Shows::Everything => true,
        }
}

/// Waits for more to tell, for a moment.
pub(crate) async fn tell(op: &Op) {
    let until_us = op.with(|core| core.now.mono_us) + LATER_US;
    op.cx.sleep_until(until_us).await;
    op.with(|core| {
        core.state.tells_later = false;
        tell_now(core);
    });
}
