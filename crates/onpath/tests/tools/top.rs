//! `onpath top`: what mounts do, of this process and of others.

use crate::common::server::Site;
use crate::common::{Over, wait_until};
use crate::tools::{json, onpath, said, text};
use std::fs;

#[test]
fn operations_of_all_mounts() {
    let Some(site) = Site::new("top") else { return };
    let mount = site.dev(&[]);
    let second = site.mount(1, &[]);
    let (over, dir) = (Over::default(), site.state());
    std::thread::scope(|scope| {
        for (number, path) in [mount.path(), second.path()].into_iter().enumerate() {
            let over = &over;
            scope.spawn(move || {
                let path = path.join(format!("f{number}"));
                while !over.is() {
                    match number {
                        0 => fs::write(&path, "x").expect("a file"),
                        _ => drop(fs::symlink_metadata(path.join("missing"))),
                    }
                }
            });
        }
        let _end = over.at_end();
        // Other processes tell what they did once a second.
        wait_until("operations of both mounts are shown", || {
            let shown = json(&["top", "--once", "--interval-ms", "300", text(&dir)]);
            let rate = |kind: &str| shown["operations"][kind]["per_second"].as_f64().unwrap_or_default();
            rate("write") > 0.0 && rate("lookup") > rate("write")
        });
        let shown = json(&["top", "--once", "-i", "300", text(mount.path())]);
        let write = &shown["operations"]["write"];
        let percentile = |name: &str| write[name].as_f64().expect("a number");
        assert!(percentile("p50_us") > 0.0 && percentile("p999_us") >= percentile("p50_us"), "{shown}");
        assert!(shown["per_second"]["requests"].as_f64() > Some(0.0), "{shown}");
        assert!(shown["journal"]["bytes_per_second"].as_f64() > Some(0.0), "{shown}");
        assert_eq!(shown["now"]["sessions"].as_u64(), Some(2), "{shown}");
        let words = said(&onpath(&["top", "--once", "-i", "100", text(&dir)]));
        assert!(words.contains("per second") && words.contains("journal:") && words.contains("write"), "{words}");
    });
    let mut status = String::new();
    wait_until("the other mount has told what it did", || {
        status = said(&onpath(&["status", "--counters", text(mount.path())]));
        status.contains("told")
    });
    assert!(!status.contains("_below_"), "{status}");
    second.stop();
    mount.stop();
    let nobody = onpath(&["top", "--once", text(&site.state())]);
    assert_eq!(nobody.status.code(), Some(32));
    assert!(said(&nobody).contains("onpath dev"), "{}", said(&nobody));
}
