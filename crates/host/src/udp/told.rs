//! The report of a host ([`crate::report`]), or what its roles know of one inode, told in parts to who asks. It is made beside, since its roles may
//! let wait.

use super::endpoint::Shared;
use super::hello::Hello;
use crate::report::report;
use crate::stream::status_json;
use onpath_transport::Head;
use onpath_wire::codec::Blob;
use onpath_wire::ids::InodeId;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Bytes of one part: with all else it fits every path.
const PART_BYTES: usize = 1_000;
/// Reports that are kept for whoever has not heard all parts.
const KEPT_MAX: usize = 8;
/// Bytes of a report.
const REPORT_BYTES_MAX: usize = PART_BYTES * u16::MAX as usize;
/// How soon after another one a report may be begun.
const PAUSE: Duration = Duration::from_millis(10);

/// The last reports, by the question that they answer.
#[derive(Default)]
pub(super) struct Reports {
    kept: VecDeque<(u64, Arc<Vec<u8>>)>,
    /// One is being made.
    making: bool,
}

/// Somebody asks for a part of the report, or of what is known of an inode.
pub(super) fn tell(
    shared: &Arc<Shared>,
    head: &Head,
    (nonce, part): (u64, u16),
    of: Option<InodeId>,
    from: SocketAddr,
    now_us: u64,
) {
    if !shared.may_answer(from, now_us) {
        return;
    }
    let mut reports = shared.reports.lock().expect("reports do not panic");
    if let Some((_, bytes)) = reports.kept.iter().find(|(known, _)| *known == nonce) {
        let bytes = bytes.clone();
        drop(reports);
        return answer(shared, head, (nonce, part), from, &bytes);
    }
    if std::mem::replace(&mut reports.making, true) {
        return; // it asks again
    }
    drop(reports);
    let (shared, head) = (shared.clone(), *head);
    let made = std::thread::Builder::new().name("report".into()).spawn({
        let shared = shared.clone();
        move || {
            let text = match of {
                None => report(shared.node()).to_string(),
                Some(inode) => status_json(&shared.node().inspect(inode)),
            };
            let bytes = Arc::new(text.into_bytes());
            if bytes.len() <= REPORT_BYTES_MAX {
                keep(&shared.reports, nonce, bytes.clone());
                answer(&shared, &head, (nonce, part), from, &bytes);
            }
            std::thread::sleep(PAUSE);
            shared.reports.lock().expect("reports do not panic").making = false;
        }
    });
    if made.is_err() {
        shared.reports.lock().expect("reports do not panic").making = false;
    }
}

fn keep(reports: &Mutex<Reports>, nonce: u64, bytes: Arc<Vec<u8>>) {
    let mut reports = reports.lock().expect("reports do not panic");
    reports.kept.push_back((nonce, bytes));
    if reports.kept.len() > KEPT_MAX {
        reports.kept.pop_front();
    }
}

fn answer(shared: &Shared, head: &Head, (nonce, part): (u64, u16), from: SocketAddr, bytes: &[u8]) {
    let parts = bytes.len().div_ceil(PART_BYTES) as u16;
    let Some(bytes) = bytes.chunks(PART_BYTES).nth(part.into()) else { return };
    shared.answer(from, head, &Hello::Told { nonce, part, parts, bytes: Blob(bytes.to_vec()) });
}
