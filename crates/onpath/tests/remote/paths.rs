//! Paths that a path node follows: by one request, and as exactly as one name after the other.

use crate::common::random::Random;
use crate::common::server::{Mount, Site, binary};
use crate::common::sys;
use crate::common::user::ALICE;
use crate::common::{number_from_env, report};
use onpath_client::blocking::Client;
use onpath_client::{Caller, Options, Replace};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

fn client_of(site: &Site) -> Client {
    Client::connect(&site.state().display().to_string(), &Options::default()).expect("a client")
}

fn alice() -> Caller {
    Caller { uid: ALICE.uid, gid: ALICE.gid, ..Caller::default() }
}

/// However deep: one request, and one for the exact attributes. Without a path node it is one for each name.
#[test]
fn a_path_is_followed_by_one_request() {
    let Some(site) = Site::new("remote::a_path_is_followed_by_one_request") else { return };
    for (memory, followed) in [("64M", true), ("0", false)] {
        let mount = site.dev(&["--path-memory", memory, "--shards", "3"]);
        let deep: PathBuf = (0..40).map(|level| format!("d{level}")).collect();
        fs::create_dir_all(mount.path().join(&deep)).expect("mkdir");
        fs::write(mount.path().join(&deep).join("file"), "x").expect("write");
        let client = client_of(&site);
        let path = format!("/{}/file", deep.display());
        for round in 0..3 {
            let before = client.counters();
            assert_eq!(client.stat(&alice(), &path).expect("stat").size, 1);
            let now = client.counters();
            let counted = [
                now.requests - before.requests,
                now.lookups - before.lookups,
                now.names_followed - before.names_followed,
            ];
            assert_eq!(counted, if followed { [2, 0, 41] } else { [42, 41, 0] }, "round {round}");
        }
        let status = site.status();
        let of_paths = |counter| status.sum("path", &[counter]);
        let expected = if followed { [41, 3, 2] } else { [0, 0, 0] };
        let counters = ["directories_held", "paths_resolved", "paths_resolved_from_memory"];
        assert_eq!(counters.map(of_paths), expected);
        client.close();
        mount.stop();
    }
    site.assert_clean("after paths");
}

/// A directory of the tree, and what its name is now.
struct Place {
    path: PathBuf,
    closed: bool,
}

/// The mount renames, exchanges, closes and removes directories on the way, and the client looks when that has returned; then the client changes and the mount
/// looks: both see the same, each time.
#[test]
fn changes_on_the_way_are_seen_at_once() {
    let Some(site) = Site::new("remote::changes_on_the_way_are_seen_at_once") else { return };
    let mount = site.dev(&["--shards", "3"]);
    let client = client_of(&site);
    assert_changes_are_seen(&mount, &client, 10_000);
    client.close();
    mount.stop();
    site.assert_clean("after changes on the way");
}

/// So many changes, or as many as `ONPATH_PAIRS` says, one after the other: the mount and the client agree after each.
pub(crate) fn assert_changes_are_seen(mount: &Mount, client: &Client, steps: usize) {
    let (me, root) = (alice(), Caller::root());
    let mut random = Random::new(11);
    let mut places: Vec<Place> = vec![];
    let (mut gone, mut denied) = (0, 0);
    let steps = number_from_env("ONPATH_PAIRS", steps) as u32;
    for step in 0..steps {
        let former: Option<PathBuf> = change(mount, client, &root, &mut random, &mut places);
        let looked = former.into_iter().chain(places.get(random.below(places.len().max(1))).map(|p| p.path.clone()));
        for path in looked.collect::<Vec<_>>() {
            let on_mount = mount.path().join(&path);
            let kernel = ALICE.run(|| sys::lstat(&on_mount)).map(|is| is.ino).map_err(Some);
            let seen = client.lstat(&me, Path::new("/").join(&path).display().to_string());
            let seen = seen.map(|is| is.ino).map_err(|error| error.raw_os_error());
            assert_eq!(seen, kernel, "step {step}, {}", path.display());
            gone += u32::from(kernel == Err(Some(libc::ENOENT)));
            denied += u32::from(kernel == Err(Some(libc::EACCES)));
        }
    }
    let least = steps / 20;
    assert!(gone > least && denied > least, "{gone} were gone, {denied} were closed");
    assert!(client.counters().names_followed > u64::from(steps / 2), "{:?}", client.counters());
    report(&format!(
        "paths beside a mount: {steps} changes, {gone} looks at what was gone, {denied} at what was closed"
    ));
}

/// One change, by the mount or by the client. The path that does not lead there any more, or leads elsewhere.
fn change(
    mount: &Mount,
    client: &Client,
    root: &Caller,
    random: &mut Random,
    places: &mut Vec<Place>,
) -> Option<PathBuf> {
    let by_mount = random.below(2) == 0;
    let of_client = |path: &Path| Path::new("/").join(path).display().to_string();
    let some = |random: &mut Random, places: &[Place]| random.below(places.len());
    let name = format!("n{}", random.below(4));
    let parent = match places.is_empty() || random.below(4) == 0 {
        true => PathBuf::new(),
        false => places[some(random, places)].path.clone(),
    };
    let to = parent.join(&name);
    let is_taken = |places: &[Place], path: &Path| places.iter().any(|place| place.path == path);
    let kind = if places.len() < 5 { 0 } else { random.below(10) };
    match kind {
        0..=2 if places.len() < 14 && !is_taken(places, &to) && to.components().count() < 7 => {
            match by_mount {
                true => fs::create_dir(mount.path().join(&to)).expect("mkdir"),
                false => drop(client.mkdir(root, of_client(&to), 0o755).expect("mkdir")),
            }
            places.push(Place { path: to, closed: false });
            None
        }
        3..=6 => {
            let from = places[some(random, places)].path.clone();
            if to.starts_with(&from) || is_taken(places, &to) || to.components().count() > 6 {
                return None;
            }
            match by_mount {
                true => fs::rename(mount.path().join(&from), mount.path().join(&to)).expect("rename"),
                false => {
                    client.rename(root, of_client(&from), of_client(&to).as_bytes(), Replace::Yes).expect("rename")
                }
            }
            for place in places {
                if let Ok(below) = place.path.strip_prefix(&from) {
                    place.path = if below == Path::new("") { to.clone() } else { to.join(below) };
                }
            }
            Some(from)
        }
        7..=8 => {
            let at = some(random, places);
            let place = &mut places[at];
            place.closed = !place.closed;
            let mode = if place.closed { 0o700 } else { 0o755 };
            match by_mount {
                true => {
                    fs::set_permissions(mount.path().join(&place.path), Permissions::from_mode(mode)).expect("chmod")
                }
                false => client.chmod(root, of_client(&place.path), mode).expect("chmod"),
            }
            None
        }
        _ => {
            let at = some(random, places);
            let path = places[at].path.clone();
            if places.iter().any(|place| place.path != path && place.path.starts_with(&path)) {
                return None;
            }
            match by_mount {
                true => fs::remove_dir(mount.path().join(&path)).expect("rmdir"),
                false => client.rmdir(root, of_client(&path)).expect("rmdir"),
            }
            places.remove(at);
            Some(path)
        }
    }
}

/// What is too little memory is refused with a sentence that says what is enough; what a path node holds can be looked at.
#[test]
fn a_path_node_is_told_and_shown() {
    let Some(site) = Site::new("remote::a_path_node_is_told_and_shown") else { return };
    let refused =
        Command::new(binary()).args(["dev", "--path-memory", "5"]).arg(site.state()).output().expect("onpath");
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("at least 1048576 bytes are needed"), "{error}");
    let mount = site.dev(&[]);
    fs::create_dir_all(mount.path().join("a/b")).expect("mkdir");
    let client = client_of(&site);
    client.stat(&Caller::root(), "/a/b").expect("stat");
    let shown = Command::new(binary()).arg("inspect").arg(mount.path().join("a")).output().expect("onpath");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("path-0") && shown.contains("holds_path") && shown.contains("holders_of_path"), "{shown}");
    client.close();
    mount.stop();
    site.assert_clean("after an inspection");
}
