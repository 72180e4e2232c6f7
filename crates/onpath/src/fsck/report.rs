//! Findings, and how they are said.

use super::code::{Code, Severity};
use super::repair::{Repaired, policy};
use onpath_wire::ids::{InodeId, ShardId};
use onpath_wire::shown::Shown;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Findings kept in full; more are only counted.
const FINDINGS_MAX: usize = 100_000;
/// Findings of one kind that are said in words; JSON has all that are kept.
const SAID_MAX: u64 = 50;

/// Something that a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) code: Code,
    message: String,
    shard: Option<ShardId>,
    inode: Option<InodeId>,
    path: Option<String>,
    file: Option<PathBuf>,
    offset: Option<u64>,
}

impl Finding {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Finding {
        Finding { code, message: message.into(), shard: None, inode: None, path: None, file: None, offset: None }
    }

    pub(crate) fn shard(mut self, shard: ShardId) -> Finding {
        self.shard = Some(shard);
        self
    }

    pub(crate) fn inode(mut self, inode: InodeId) -> Finding {
        self.inode = Some(inode);
        self
    }

    pub(crate) fn path(mut self, path: Option<String>) -> Finding {
        self.path = path;
        self
    }

    pub(crate) fn file(mut self, file: &Path) -> Finding {
        self.file = Some(file.to_owned());
        self
    }

    pub(crate) fn offset(mut self, offset: u64) -> Finding {
        self.offset = Some(offset);
        self
    }

    fn json(&self) -> Value {
        let mut value = json!({ "code": self.code.code(), "name": self.code.name(), "message": self.message });
        let object = value.as_object_mut().expect("made as one");
        let mut put = |key: &str, field: Option<Value>| {
            object.extend(field.map(|field| (key.to_owned(), field)));
        };
        put("shard", self.shard.map(|shard| json!(shard.0)));
        put("inode", self.inode.map(|inode| json!(format!("{:#x}", inode.0))));
        put("path", self.path.as_ref().map(|path| json!(path)));
        put("file", self.file.as_ref().map(|file| json!(file.to_string_lossy())));
        put("offset", self.offset.map(|offset| json!(offset)));
        value
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.code.code(), self.code.name(), self.message)?;
        let mut places = Vec::new();
        places.extend(self.path.as_ref().map(|path| format!("path {}", path.shown())));
        places.extend(self.inode.map(|inode| format!("inode {:#x}", inode.0)));
        places.extend(self.shard.map(|shard| format!("shard {shard}")));
        places.extend(self.file.as_ref().map(|file| format!("file {}", file.shown())));
        places.extend(self.offset.map(|offset| format!("offset {offset}")));
        if places.is_empty() { Ok(()) } else { write!(f, " [{}]", places.join(", ")) }
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct Checked {
    pub(crate) shards: u64,
    pub(crate) inodes: u64,
    pub(crate) names: u64,
    pub(crate) entries: u64,
    pub(crate) files_with_data: u64,
    pub(crate) images: u64,
    pub(crate) journal_records: u64,
    /// The file system was served meanwhile: this is how it was at one moment.
    pub(crate) served: bool,
    /// Every block was read and compared with its checksum.
    pub(crate) data: bool,
    /// The namespace was checked; it is not if parts of the disk state cannot be read.
    pub(crate) namespace: bool,
}

/// All findings of one run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) checked: Checked,
    /// What was repaired before this was found.
    pub(crate) repaired: Repaired,
    findings: Vec<Finding>,
    faults: u64,
    notes: u64,
}

impl Report {
    pub(crate) fn add(&mut self, finding: Finding) {
        match finding.code.severity() {
            Severity::Fault => self.faults += 1,
            Severity::Note => self.notes += 1,
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// Number of faults.
    pub(crate) fn faults(&self) -> u64 {
        self.faults
    }

    /// The kinds of faults that are kept, and how many of each.
    pub(crate) fn fault_kinds(&self) -> BTreeMap<Code, u64> {
        let mut kinds = BTreeMap::new();
        self.of(Severity::Fault).for_each(|finding| *kinds.entry(finding.code).or_default() += 1);
        kinds
    }

    /// The first fault.
    pub(crate) fn first_fault(&self) -> Option<&Finding> {
        self.of(Severity::Fault).next()
    }

    fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(move |finding| finding.code.severity() == severity)
    }

    /// One JSON object.
    pub(crate) fn json(&self, dir: &Path) -> Value {
        let list = |severity| self.of(severity).map(Finding::json).collect::<Vec<_>>();
        let repaired =
            |(code, what): &(Code, String)| json!({ "code": code.code(), "name": code.name(), "what": what });
        json!({
            "repaired": self.repaired.iter().map(repaired).collect::<Vec<_>>(),
            "dir": dir.to_string_lossy(),
            "clean": self.faults == 0,
            "fault_count": self.faults,
            "faults": list(Severity::Fault),
            "notes": list(Severity::Note),
            "checked": self.checked,
        })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: BTreeMap<Code, u64> = BTreeMap::new();
        for (code, what) in &self.repaired {
            let n = kinds.entry(*code).or_default();
            *n += 1;
            if *n <= SAID_MAX {
                writeln!(f, "repaired {} {}: {what}", code.code(), code.name())?;
            }
        }
        for (code, n) in std::mem::take(&mut kinds).into_iter().filter(|(_, n)| *n > SAID_MAX) {
            writeln!(f, "repaired {} {}: {} more like these", code.code(), code.name(), n - SAID_MAX)?;
        }
        for finding in &self.findings {
            let n = kinds.entry(finding.code).or_default();
            *n += 1;
            if *n <= SAID_MAX {
                writeln!(f, "{finding}")?;
                if let (Severity::Fault, Err(why)) = (finding.code.severity(), policy::of(finding.code)) {
                    writeln!(f, "  --repair does nothing about it: {why}")?;
                }
            }
        }
        for (code, n) in kinds.into_iter().filter(|(_, n)| *n > SAID_MAX) {
            writeln!(f, "{} {}: {} more like these", code.code(), code.name(), n - SAID_MAX)?;
        }
        let uncounted = self.faults + self.notes - self.findings.len() as u64;
        if uncounted > 0 {
            writeln!(f, "and {uncounted} more findings of any kind")?;
        }
        let Checked { shards, inodes, names, entries, images, journal_records, .. } = self.checked;
        writeln!(f, "read {shards} shards: {images} images, {journal_records} journal records")?;
        if self.checked.namespace {
            writeln!(f, "checked {inodes} inodes, {names} names, {entries} entries")?;
        } else {
            writeln!(f, "names and files were not checked, since not all of their state can be read")?;
        }
        if self.faults == 0 { write!(f, "clean") } else { write!(f, "{} faults", self.faults) }
    }
}
