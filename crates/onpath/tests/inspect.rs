//! `onpath inspect PATH`: what the shards know of a directory, in both tracking forms.

mod common;

use common::server::{Site, binary};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn inspect(path: &Path) -> Output {
    Command::new(binary()).args(["inspect", "--json"]).arg(path).output().expect("onpath runs")
}

/// The number `name` of all roles that have it.
fn all(inspection: &Value, name: &str) -> Vec<u64> {
    let roles = inspection.as_object().expect("an object of roles").values();
    roles.filter_map(|role| role.get(name)).map(|number| number.as_u64().expect("a number")).collect()
}

#[test]
fn a_directory_is_shown_as_its_owner_and_its_sites_see_it() {
    for tracking in ["owner", "network"] {
        let Some(site) = Site::new("inspect") else { return };
        let mount = site.dev(&["--shards", "2", "--tracking", tracking]);
        let dir = mount.path().join("d");
        fs::create_dir(&dir).expect("mkdir");
        let in_network = u64::from(tracking == "network");
        common::wait_until("the form is what it should be", || {
            let output = inspect(&dir);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let inspection: Value = serde_json::from_slice(&output.stdout).expect("JSON");
            assert_eq!(all(&inspection, "owner"), [1], "one shard owns it");
            all(&inspection, "tracked_in_network") == [in_network]
        });
        for n in 0..20 {
            fs::write(dir.join(format!("f{n}")), "").expect("a file");
            assert_eq!(fs::read_dir(&dir).expect("readdir").count(), n + 1);
        }
        let inspection: Value = serde_json::from_slice(&inspect(&dir).stdout).expect("JSON");
        assert_eq!(all(&inspection, "entries"), [20]);
        assert_eq!(all(&inspection, "sync"), [1], "reads and updates alternate: {inspection}");
        assert!(all(&inspection, "holds_append").iter().all(|held| *held <= 1), "{inspection}");
        mount.stop();
    }
}

#[test]
fn what_cannot_be_inspected_is_said() {
    let Some(site) = Site::new("inspect elsewhere") else { return };
    let mount = site.dev(&[]);
    let file = mount.path().join("f");
    fs::write(&file, "").expect("a file");
    for (path, why) in [(file.as_path(), "not a directory"), (Path::new("/proc"), "not on a mount of Onpath")] {
        let output = inspect(path);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{}: {said}", path.display());
    }
    mount.stop();
}
