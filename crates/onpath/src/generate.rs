//! `onpath completions SHELL` and `onpath man DIR`: made from the command line's own description, as packages do.

use crate::{cli, helper};
use anyhow::Context;
use clap::Args;
use clap_complete::Shell;
use onpath_wire::shown::Shown;
use std::path::{Path, PathBuf};

/// Arguments of `onpath completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell that shall complete `onpath` commands; source what is printed.
    #[arg(value_enum)]
    shell: Shell,
}

pub(crate) fn completions(args: CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli::command(), "onpath", &mut script);
    let script = String::from_utf8(script).context("a script is text")?;
    cli::say(format!("{}\n\n{}", script.trim_end(), paths(args.shell)).trim_end());
    Ok(())
}

/// What completes paths of file systems that are not mounted; nothing in shells of which nobody has asked for it.
fn paths(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("remote/completions.bash"),
        Shell::Zsh => include_str!("remote/completions.zsh"),
        Shell::Fish => include_str!("remote/completions.fish"),
        _ => "",
    }
}

/// Arguments of `onpath man`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Where to write the pages; made if it is missing.
    dir: PathBuf,
}

pub(crate) fn man(args: ManArgs) -> anyhow::Result<()> {
    let dir = &args.dir;
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.shown()))?;
    clap_mangen::generate_to(cli::command(), dir)
        .and_then(|()| helper_page(dir))
        .with_context(|| format!("cannot write into {}", dir.shown()))
}

/// The page of the helper, which belongs to mount(8).
fn helper_page(dir: &Path) -> std::io::Result<()> {
    let page = clap_mangen::Man::new(helper::command()).section("8");
    page.generate_to(dir).map(drop)
}
