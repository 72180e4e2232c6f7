//! Signals as messages.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::Sender;

/// Sends `message` once for every signal that asks the process to end.
pub(crate) fn forward<M: Clone + Send + 'static>(to: Sender<M>, message: M) -> anyhow::Result<()> {
    forward_each(to, [(SIGINT, message.clone()), (SIGTERM, message)].into())
}

/// The same, and `reload` for every signal that asks it to read its configuration again.
pub(crate) fn forward_with_reload<M: Clone + Send + 'static>(to: Sender<M>, end: M, reload: M) -> anyhow::Result<()> {
    forward_each(to, [(SIGINT, end.clone()), (SIGTERM, end), (SIGHUP, reload)].into())
}

fn forward_each<M: Clone + Send + 'static>(to: Sender<M>, messages: Vec<(i32, M)>) -> anyhow::Result<()> {
    let mut signals = Signals::new(messages.iter().map(|(signal, _)| signal))?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            let message = messages.iter().find(|(known, _)| *known == signal).map(|(_, message)| message.clone());
            if message.is_some_and(|message| to.send(message).is_err()) {
                return;
            }
        }
    })?;
    Ok(())
}
