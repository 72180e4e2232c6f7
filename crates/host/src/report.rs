//! What a process that serves tells of itself to `onpath status` and `onpath top`: its counters, the mounts that it knows, and the hosts.

use crate::mounts::Mounted;
use crate::node::{Counters, Node};
use crate::sys;
use serde_json::{Map, Value, json};

/// A part of the report that is told by somebody else.
pub type Section = Box<dyn Fn() -> Value + Send + Sync>;

/// All of it, as a JSON object.
pub fn report(node: &Node) -> Value {
    let values =
        |counters: Counters| counters.into_iter().map(|(name, value)| (name, value.into())).collect::<Map<_, _>>();
    let counters: Map<_, _> = node.status().into_iter().map(|(role, told)| (role, values(told).into())).collect();
    let now_us = sys::mono_us();
    let mounts: Vec<Value> = node.mounts().present().iter().map(|mounted| mount(mounted, now_us)).collect();
    let mut all = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": node.uptime().as_millis() as u64,
        "counters": counters,
        "mounts": mounts,
    });
    for (name, section) in node.sections() {
        all[name] = section;
    }
    all
}

fn mount(mounted: &Mounted, now_us: u64) -> Value {
    let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    json!({
        "id": format!("{:016x}", mounted.is.id),
        "machine": text(&mounted.is.machine.0),
        "mountpoint": text(&mounted.is.mountpoint.0),
        "pid": mounted.is.pid,
        "version": text(&mounted.is.version.0),
        "uptime_ms": mounted.is.uptime_ms,
        "session": mounted.session.0,
        "key": mounted.key.as_deref(),
        "heard_ms": now_us.saturating_sub(mounted.heard_us) / 1_000,
        "operations": mounted.operations,
        "per_second": mounted.per_second,
        "waiting": mounted.waiting,
        "oldest_ms": mounted.oldest_ms,
        "own": mounted.is_own,
    })
}
