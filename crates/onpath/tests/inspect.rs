//! `onpath inspect PATH`: what the shards know of a directory, in both tracking forms, and of a lent file.

use crate::common::server::{Site, binary};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn inspect(site: &Site, path: &Path) -> Output {
    site.beside().args(["inspect", "--json"]).arg(path).output().expect("onpath runs")
}

/// What the roles of all hosts say of a directory, by role.
fn inspection(site: &Site, dir: &Path) -> Value {
    inspection_of(site, fs::metadata(dir).expect("stat").ino())
}

fn inspection_of(site: &Site, inode: u64) -> Value {
    let inode = inode.to_string();
    let of_host = |state: PathBuf| {
        let mut command = Command::new(binary());
        let output = command.args(["inspect", "--json", "--inode", &inode]).arg(state).output().expect("onpath runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let of_host: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        of_host.as_object().expect("an object of roles").clone()
    };
    Value::Object(site.states().into_iter().flat_map(of_host).collect())
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
        crate::common::wait_until("the form is what it should be", || {
            let inspection = inspection(&site, &dir);
            assert_eq!(all(&inspection, "owner"), [1], "one shard owns it");
            all(&inspection, "tracked_in_network") == [in_network]
        });
        for n in 0..20 {
            fs::write(dir.join(format!("f{n}")), "").expect("a file");
            assert_eq!(fs::read_dir(&dir).expect("readdir").count(), n + 1);
        }
        let inspection = inspection(&site, &dir);
        assert_eq!(all(&inspection, "entries"), [20]);
        assert_eq!(all(&inspection, "sync"), [1], "reads and updates alternate: {inspection}");
        assert!(all(&inspection, "holds_append").iter().all(|held| *held <= 1), "{inspection}");
        // By its path, of a cluster from all hosts.
        let by_path = inspect(&site, &dir);
        let said = String::from_utf8_lossy(&by_path.stderr);
        assert!(by_path.status.success(), "{said}");
        let by_path: Value = serde_json::from_slice(&by_path.stdout).expect("JSON");
        assert_eq!(all(&by_path, "entries"), [20], "{said}");
        mount.stop();
    }
}

/// A look at what is lent takes nothing back, though ftruncate(2) does.
#[test]
fn a_lent_file_is_shown_as_its_home_and_its_data_node_see_it() {
    let Some(site) = Site::new("inspect lent") else { return };
    let mount = site.dev(&["--writes", "visible"]);
    let path = mount.path().join("f");
    let file = fs::File::create(&path).expect("a file");
    let inode = fs::read_dir(mount.path()).expect("readdir").next().expect("an entry").expect("readable").ino();
    let mut writes = 0;
    crate::common::wait_until("the data node answers writes", || {
        file.write_all_at(b"hello", 5 * writes).expect("a write");
        writes += 1;
        let inspection = inspection_of(&site, inode);
        let [lent, held] = ["merge_part", "merge_part_held"].map(|name| all(&inspection, name));
        !lent.is_empty() && lent == held
    });
    let by_path: Value = serde_json::from_slice(&inspect(&site, &path).stdout).expect("JSON");
    assert!(!all(&by_path, "merge_part_held").is_empty(), "{by_path}");
    assert_eq!(fs::metadata(&path).expect("stat").len(), 5 * writes);
    // Where a switch tells what is pending a stat leaves it where it is; a change takes it back.
    file.set_len(1).expect("truncate");
    assert!(all(&inspection_of(&site, inode), "merge_part").is_empty(), "who changes the size takes it back");
    drop(file);
    mount.stop();
}

#[test]
fn what_cannot_be_inspected_is_said() {
    let Some(site) = Site::new("inspect elsewhere") else { return };
    let mount = site.dev(&[]);
    let fifo = mount.path().join("f");
    assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo runs").success());
    for (path, why) in
        [(fifo.as_path(), "neither a directory nor a file"), (Path::new("/proc"), "not on a mount of Onpath")]
    {
        let output = inspect(&site, path);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{}: {said}", path.display());
    }
    mount.stop();
}

/// What is asked for often is shown as what the switch answers, by the home of a file and by the controller.
#[test]
fn what_a_switch_answers_is_shown() {
    let Some(site) = Site::new("inspect") else { return };
    let mount = site.dev(&["--tracking", "network", "--switch-cache", "--cache", "none"]);
    let file = mount.path().join("a file");
    fs::write(&file, "bytes").expect("a file");
    let asked = || {
        let mut command = Command::new(binary());
        command.args(["switch", "top", "--json"]).arg(site.state()).output().expect("onpath runs")
    };
    let top = || {
        let output = asked();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    crate::common::wait_until("the switch answers", || {
        (0..200).for_each(|_| assert_eq!(fs::metadata(&file).expect("stat").len(), 5));
        // The root, too, once its entry is missed often.
        let top = top();
        !all(&top, "answers_of 1/a%20file").is_empty() && all(&top, "names_cached") == [2]
    });
    let inode = fs::metadata(&file).expect("stat").ino();
    assert_eq!(all(&inspection_of(&site, inode), "answered_by_switch"), [1]);
    // A stat of the file takes a pass for its directory and one for itself.
    let top_now = top();
    let [answered, again] = ["read_answered", "passes_recirculated"].map(|counter| all(&top_now, counter)[0]);
    assert!(answered > 100 && again > 50, "{answered} answers, {again} recirculations");
    mount.stop();
    let mount = site.dev(&["--tracking", "network"]);
    let refused = asked();
    assert!(
        !refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("no switch has a cache there")
    );
    mount.stop();
}
