//! Owners as chown(1) takes them: names or numbers.

use anyhow::Context;
use onpath_wire::shown::Shown;
use std::process::{Command, Stdio};

/// What a name is looked up in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Database {
    /// Users.
    Passwd,
    /// Groups.
    Group,
}

impl Database {
    fn name(self) -> &'static str {
        match self {
            Database::Passwd => "passwd",
            Database::Group => "group",
        }
    }

    /// The fields that getent(1) knows of a name: it asks whatever service this host has for names.
    fn lookup(self, name: &str) -> anyhow::Result<Vec<String>> {
        let output = Command::new("getent").args([self.name(), name]).stdin(Stdio::null()).output();
        let output = output.context("names need getent(1); give a number instead")?;
        let line = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        anyhow::ensure!(
            output.status.success() && !line.is_empty(),
            "nobody is called {} in {}",
            name.shown(),
            self.name()
        );
        Ok(line.split(':').map(str::to_owned).collect())
    }

    /// The id of a name or number.
    pub(super) fn id(self, text: &str) -> anyhow::Result<u32> {
        if let Ok(id) = text.parse() {
            anyhow::ensure!(id != u32::MAX, "{text} is no id");
            return Ok(id);
        }
        let fields = self.lookup(text)?;
        fields
            .get(2)
            .and_then(|id| id.parse().ok())
            .with_context(|| format!("{} has no id for {}", self.name(), text.shown()))
    }
}

/// Who shall own something; none where that does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
}

impl Owner {
    /// `OWNER`, `OWNER:GROUP`, `:GROUP`, or `OWNER:` for the owner's own group.
    pub(super) fn parse(text: &str) -> anyhow::Result<Owner> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        anyhow::ensure!(
            !user.is_empty() || group.is_some_and(|group| !group.is_empty()),
            "give OWNER, OWNER:GROUP or :GROUP"
        );
        let uid = if user.is_empty() { None } else { Some(Database::Passwd.id(user)?) };
        let gid = match group {
            None => None,
            Some("") => {
                let fields = Database::Passwd.lookup(user)?;
                Some(
                    fields
                        .get(3)
                        .and_then(|gid| gid.parse().ok())
                        .with_context(|| format!("{} has no group", user.shown()))?,
                )
            }
            Some(group) => Some(Database::Group.id(group)?),
        };
        Ok(Owner { uid, gid })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_and_groups() {
        let owner = |text| Owner::parse(text).map(|Owner { uid, gid }| (uid, gid));
        assert_eq!(owner("12:34").unwrap(), (Some(12), Some(34)));
        assert_eq!(owner("12").unwrap(), (Some(12), None));
        assert_eq!(owner(":34").unwrap(), (None, Some(34)));
        assert_eq!(owner("root:root").unwrap(), (Some(0), Some(0)));
        assert_eq!(owner("root:").unwrap(), (Some(0), Some(0)));
        for text in ["", ":", "no-such-user-here", "0:no-such-group-here", "4294967295"] {
            assert!(owner(text).is_err(), "{text}");
        }
    }
}
