//! `onpath cluster key rotate FILE…`: one key takes the place of another in three steps, each of which all hosts and clients have before the
//! next: the new key is taken too, then it is used, then the former one is not taken any more.

use crate::cli::say;
use anyhow::{Context, bail};
use clap::Args;
use onpath_client::key::{self, FORMER, KEY, KEY_BYTES, Lines, NEXT, hexadecimal};
use onpath_host::sys::random_bytes;
use onpath_wire::shown::Shown;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

/// Arguments of `onpath cluster key rotate`.
#[derive(Args, Debug)]
pub(super) struct RotateArgs {
    /// The files with the key: that of hosts, and that of clients.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The lines of keys in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stage {
    key: [u8; KEY_BYTES],
    next: Option<[u8; KEY_BYTES]>,
    former: Option<[u8; KEY_BYTES]>,
}

impl Stage {
    /// What the next step makes of it, and what is to be said of that; `drawn` is used where a new key begins.
    fn step(self, drawn: [u8; KEY_BYTES]) -> (Stage, &'static str) {
        match self {
            Stage { next: Some(next), key, .. } => (
                Stage { key: next, next: None, former: Some(key) },
                "step 2 of 3: messages are sealed with the new key, and the former one is taken still",
            ),
            Stage { former: Some(_), key, .. } => {
                (Stage { key, next: None, former: None }, "step 3 of 3: the former key is not taken any more")
            }
            Stage { key, .. } => (
                Stage { key, next: Some(drawn), former: None },
                "step 1 of 3: a new key is taken beside the present one",
            ),
        }
    }

    fn lines(&self) -> String {
        let line = |name: &str, key: &[u8]| format!("{name} = {}\n", hexadecimal(key));
        let second = [(NEXT, self.next), (FORMER, self.former)];
        let second = second.iter().filter_map(|(name, key)| key.as_ref().map(|key| line(name, key)));
        line(KEY, &self.key) + &second.collect::<String>()
    }
}

pub(super) fn run(RotateArgs { files }: RotateArgs) -> anyhow::Result<()> {
    let mut all = Vec::new();
    for file in &files {
        key::read(file)?; // it is one, and nobody else reads it
        let text = std::fs::read_to_string(file).with_context(|| file.shown().to_string())?;
        let stage = stage_of(file, &text)?;
        all.push((file, text, stage));
    }
    let stage = all[0].2;
    let other = all.iter().find(|(.., other)| *other != stage);
    if let Some((other, ..)) = other {
        bail!(
            "{} and {} have not the same keys: copy the lines from one to the other",
            files[0].shown(),
            other.shown()
        );
    }
    let (next, told) = stage.step(random_bytes()?);
    for (file, text, _) in &all {
        replace(file, &with_keys(text, &next)).with_context(|| file.shown().to_string())?;
    }
    say(&format!("onpath: {told}"));
    let names: Vec<String> = files.iter().map(|file| file.shown().to_string()).collect();
    say(&format!("onpath: copy {} to all hosts and clients; they read it within seconds", names.join(" and ")));
    if next.next.is_some() || next.former.is_some() {
        say(
            "onpath: do the next step with the same command when all have it (`onpath cluster status` shows the keys of hosts)",
        );
    }
    Ok(())
}

fn stage_of(file: &Path, text: &str) -> anyhow::Result<Stage> {
    let Lines { key, next, former, .. } = key::parse(text).map_err(|(_, why)| anyhow::anyhow!("{why}"))?;
    match key.flatten() {
        Some(key) => Ok(Stage { key, next, former }),
        None => bail!("{}: messages of this cluster are not sealed, so there is no key to change", file.shown()),
    }
}

/// The same text with other keys, in the place of the line `key`.
fn with_keys(text: &str, stage: &Stage) -> String {
    let name = |line: &str| line.split_once('=').map(|(name, _)| name.trim().to_owned()).unwrap_or_default();
    let mut out = String::new();
    let mut written = false;
    for line in text.lines() {
        match name(line) {
            name if name == KEY => {
                out.push_str(&stage.lines());
                written = true;
            }
            name if name == NEXT || name == FORMER => {}
            _ => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    // A file with nothing but digits.
    if written { out } else { stage.lines() }
}

/// Replaces a file as a whole; it stays its owner's, and readable by nobody else.
pub(super) fn replace(file: &Path, text: &str) -> anyhow::Result<()> {
    let place = file.parent().filter(|place| !place.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let before = std::fs::metadata(file)?;
    let mut new = tempfile::NamedTempFile::new_in(place)?;
    new.as_file().set_permissions(std::fs::Permissions::from_mode(0o600))?;
    fchown(new.as_file(), Some(before.uid()), Some(before.gid()))?;
    new.write_all(text.as_bytes())?;
    new.as_file().sync_all()?;
    new.persist(file)?;
    std::fs::File::open(place)?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_steps_change_a_key_and_leave_the_rest() {
        let one = Stage { key: [1; KEY_BYTES], next: None, former: None };
        let (two, _) = one.step([2; KEY_BYTES]);
        assert_eq!(two, Stage { next: Some([2; KEY_BYTES]), ..one });
        let (three, _) = two.step([3; KEY_BYTES]);
        assert_eq!(three, Stage { key: [2; KEY_BYTES], next: None, former: Some([1; KEY_BYTES]) });
        let (four, _) = three.step([3; KEY_BYTES]);
        assert_eq!(four, Stage { key: [2; KEY_BYTES], next: None, former: None });
        let text = format!("# secrets\n{}placement = 7\n", one.lines());
        let file = Path::new("k");
        let mut now = text.clone();
        for stage in [two, three, four] {
            now = with_keys(&now, &stage);
            assert_eq!(stage_of(file, &now.replace("placement = 7\n", "")).unwrap(), stage);
            assert!(now.starts_with("# secrets\n") && now.ends_with("placement = 7\n"), "{now}");
        }
        assert_eq!(now, text.replace(&"01".repeat(KEY_BYTES), &"02".repeat(KEY_BYTES)));
        assert_eq!(stage_of(file, &with_keys(&"01".repeat(KEY_BYTES), &two)).unwrap(), two, "a bare key");
        assert!(stage_of(file, "key = none").is_err());
    }
}
