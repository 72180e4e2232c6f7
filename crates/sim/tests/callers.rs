//! Callers of every kind (capabilities, user namespaces) over several shards: what each may do is what the model says; and who they are for
//! the kernel.
#![allow(unsafe_code)] // what changes the thread's file-system user

use onpath_sim::model::Caller;
use onpath_sim::workload::WorkloadConfig;
use onpath_sim::world::WorldConfig;
use onpath_sim::{SimConfig, run};
use onpath_wire::caller::{Caps, cap};
use rustix::thread::CapabilitySet;

#[test]
fn capabilities_decide_on_every_shard_as_in_the_model() {
    for seed in 1..=6 {
        let world = WorldConfig { loss: 0.02, duplicate: 0.02, processes: 2, shards: 3, ..WorldConfig::default() };
        let workload = WorkloadConfig { names: 300, capable: true, ..WorkloadConfig::default() };
        let outcome = run(&SimConfig { seed, operations: 4_000, world, workload, ..SimConfig::default() });
        assert!(outcome.violations.is_empty(), "seed {seed}: {:#?}", outcome.violations);
    }
}

/// Makes this thread act on files as `caller`.
pub(crate) fn become_user(caller: &Caller) {
    // SAFETY: raw system calls with valid pointers; they change credentials of this thread only.
    unsafe {
        libc::setfsuid(0);
        let groups = caller.groups.as_slice();
        assert_eq!(libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()), 0);
        libc::setfsgid(caller.gid);
        libc::setfsuid(caller.uid);
    }
    // The change of the user has set them, to all or none.
    let mut sets = rustix::thread::capabilities(None).expect("capget");
    let ours = CapabilitySet::from_bits_retain(u64::from(OF_FILES));
    let wanted = CapabilitySet::from_bits_retain(u64::from(caller.caps.had & OF_FILES));
    sets.effective = (sets.effective - ours) | (wanted & sets.permitted);
    rustix::thread::set_capabilities(None, sets).expect("capset");
}

/// The capabilities that a thread gives up with its file-system user.
const OF_FILES: u32 = cap::CHOWN | cap::DAC_OVERRIDE | cap::DAC_READ_SEARCH | cap::FOWNER | cap::FSETID;

fn with(uid: u32, gid: u32, groups: &[u32]) -> Caller {
    Caller { groups: groups.into(), ..Caller::new(uid, gid) }
}

/// Users, and root.
pub(crate) fn users() -> Vec<Caller> {
    vec![
        with(0, 0, &[]),
        with(1001, 2001, &[2002]),
        with(1002, 2002, &[]),
        with(1003, 2003, &[2001, 2002]),
        with(0, 0, &[]),
    ]
}

/// Root, root without capabilities, and users with some.
pub(crate) fn capable() -> Vec<Caller> {
    let capable = |had, caller| Caller { caps: Caps::exactly(had), ..caller };
    vec![
        with(0, 0, &[]),
        with(1001, 2001, &[2002]),
        with(1002, 2002, &[]),
        with(1003, 2003, &[2001, 2002]),
        with(0, 0, &[]),
        with(0, 2001, &[2002]),
        with(1001, 2001, &[2002]),
        capable(0, with(0, 0, &[])),
        capable(cap::FOWNER, with(0, 2002, &[])),
        capable(cap::DAC_OVERRIDE, with(1001, 2001, &[2002])),
        capable(cap::DAC_READ_SEARCH, with(1002, 2002, &[])),
        capable(cap::FOWNER, with(1003, 2003, &[2001, 2002])),
        capable(cap::CHOWN | cap::FSETID, with(1002, 2002, &[])),
        capable(cap::DAC_READ_SEARCH | cap::FOWNER | cap::CHOWN, with(1001, 2001, &[])),
    ]
}
