//! `cargo run -p onpath-client --example stat -- onpath://HOST/PATH`: what a path is, without a mount.

use onpath_client::blocking::Client;
use onpath_client::{Caller, Error, Options, Source};

fn main() -> Result<(), Error> {
    let Some(what) = std::env::args().nth(1) else {
        eprintln!("stat onpath://HOST[:PORT]/PATH");
        std::process::exit(2);
    };
    let (source, path) = Source::parse(&what)?;
    let client = Client::connect_to(&source, &Options::default())?;
    let is = client.stat(&Caller::of_this_process(), format!("/{path}"))?;
    println!("inode {}, mode {:o}, {} bytes", is.ino, is.mode(), is.size);
    client.close();
    Ok(())
}
