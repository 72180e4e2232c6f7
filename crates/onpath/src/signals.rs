//! SIGINT and SIGTERM as messages.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::mpsc::Sender;

/// Sends `message` once for every signal that asks the process to end.
pub(crate) fn forward<M: Clone + Send + 'static>(to: Sender<M>, message: M) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        for _ in signals.forever() {
            if to.send(message.clone()).is_err() {
                return;
            }
        }
    })?;
    Ok(())
}
