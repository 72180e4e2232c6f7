//! The commands in the groups that users of other file systems know: `onpath --help` lists them so.

use clap::Command;
use std::fmt::Write;

/// Every command but `help` and those that only programs call, in its group.
pub(super) const GROUPS: [(&str, &[&str]); 5] = [
    ("Admin", &["cluster", "format", "fsck", "reshape", "switch"]),
    ("Inspect", &["status", "top", "inspect", "du", "df", "find"]),
    ("Without a mount", &["ls", "stat", "tree", "cat", "get", "put", "mkdir", "touch", "mv", "ln", "rm"]),
    ("Service", &["dev", "serve", "mount", "umount"]),
    ("Tool", &["import", "export", "rmr", "chmod", "chown", "bench", "sim", "explore", "completions", "man"]),
];

/// Lists the commands of `command` by group in its help.
pub(super) fn grouped(command: Command) -> Command {
    let mut list = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(list, "{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(Command::get_about).map(ToString::to_string);
            let _ = writeln!(list, "  {name:<12}{}", about.unwrap_or_default());
        }
        list.push('\n');
    }
    let help = "  help        Print this message or the help of a command";
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{help}\n\nOptions:\n{{options}}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group() {
        let command = crate::cli::command();
        let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut there: Vec<&str> = shown.map(Command::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        there.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, there);
    }

    #[test]
    fn the_command_line_is_sound() {
        crate::cli::command().debug_assert();
    }
}
