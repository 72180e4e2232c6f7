//! `onpath bench floor DIR MNT`: a passthrough on the transport and with the settings of the real mount.

use crate::cli::absolute;
use crate::mounted::{self, Event};
use crate::signals;
use clap::Args;
use onpath_fuse::floor::Floor;
use onpath_fuse::mount::MountOptions;
use onpath_fuse::serve::ServeOptions;
use onpath_wire::shown::Shown;
use std::path::PathBuf;
use std::sync::mpsc::channel;

/// Arguments of `onpath bench floor`.
#[derive(Args, Debug)]
pub(crate) struct FloorArgs {
    /// The directory to show; on tmpfs, so that no disk is measured.
    dir: PathBuf,
    /// Where to mount it.
    mountpoint: PathBuf,
    /// Mount options as for mount(8): ro, nodev, nosuid, noexec, noatime, …
    #[arg(short = 'o', value_name = "OPTIONS", value_delimiter = ',')]
    options: Vec<String>,
}

pub(crate) fn run(args: FloorArgs) -> anyhow::Result<()> {
    let options = MountOptions::parse(&args.options.join(","), &[])?;
    let mountpoint = absolute(&args.mountpoint)?;
    let floor = Floor::new(&absolute(&args.dir)?, &mountpoint, &options.mount)?;
    let (sender, receiver) = channel();
    signals::forward(sender.clone(), Event::Signal)?;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mounted = || println!("onpath: floor mounted on {}", mountpoint.shown());
            let result = floor.serve(ServeOptions::default(), mounted);
            _ = sender.send(Event::Unmounted); // the main thread may have ended first
            result
        });
        mounted::wait(floor.mount(), &receiver)?;
        Ok(reader.join().expect("the reader does not panic")?)
    })
}
