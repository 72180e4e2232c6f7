//! A mount of a cluster over the directory of one of its hosts.

use crate::common::cluster::{Cluster, Shape};
use crate::common::server::{Mount, Site, binary, run};
use std::fs;

/// A host that serves goes on in the directory that it has opened. One that starts would wait for itself: it is refused at once.
#[test]
fn the_directory_of_a_host() {
    let test = "cluster::the_directory_of_a_host";
    let Some(site) = Site::new(test) else { return };
    let shape = Shape { servers: 1, clients: 1, ..Shape::default() };
    let Some(mut cluster) = Cluster::start(test, &site, shape) else { return };
    let state = cluster.state(0);
    let mut command = cluster.net.command(1, binary());
    command.args(["mount", &cluster.url()]).arg(&state);
    let cover = Mount::start(command, state.clone(), site.log("cover"));
    for number in 0..200 {
        fs::write(cover.path().join(format!("f{number}")), vec![7; 10_000]).expect("a file");
    }
    cluster.stop_host(0);
    let said = cluster.refused(0);
    assert!(said.contains("lies on a mount of a cluster") && said.contains("unmount"), "{said}");
    drop(cover);
    let status = run(["status".as_ref(), state.as_os_str()]);
    let said = String::from_utf8_lossy(&status.stdout);
    assert!(
        status.status.code() == Some(4)
            && said.contains("nobody serves")
            && said.contains("`onpath serve`")
            && !said.contains("onpath dev"),
        "{said}"
    );
    cluster.serve(0);
    let mount = cluster.mount(&site, 0, &[]);
    assert_eq!(fs::read(mount.path().join("f199")).expect("read"), vec![7; 10_000]);
    mount.stop();
    cluster.stop();
}
