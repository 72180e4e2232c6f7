//! Paths that a path node follows: by one request, and as exactly as one name after the other.

use crate::common::random::Random;
use crate::common::server::{Mount, Site, binary};
use crate::common::sys;
use crate::common::user::ALICE;
use crate::common::{number_from_env, report, wait_until};
use onpath_client::blocking::Client;
use onpath_client::{Caller, Options, Replace};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A client that keeps nothing of what path nodes say.
fn client_of(site: &Site) -> Client {
    client_with(site, 0)
}

fn client_with(site: &Site, path_cache: usize) -> Client {
    let options = Options { path_cache, ..Options::default() };
    Client::connect(&site.state().display().to_string(), &options).expect("a client")
}

fn alice() -> Caller {
    Caller { uid: ALICE.uid, gid: ALICE.gid, ..Caller::default() }
}

/// However deep: one request, which the site of the file answers with all its attributes. Without a path node it is one for each name, and one
/// for exact attributes.
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
            assert_eq!(counted, if followed { [1, 0, 41] } else { [42, 41, 0] }, "round {round}");
        }
        let status = site.status();
        let of_paths = |counter| status.sum("path", &[counter]);
        let expected = if followed { [41, 3, 2, 1] } else { [0; 4] };
        let counters = ["directories_held", "paths_resolved", "paths_checked", "paths_asked"];
        assert_eq!(counters.map(of_paths), expected);
        client.close();
        mount.stop();
    }
    site.assert_clean("after paths");
}

/// What a client keeps of a path node's answers spares it the path node, until somebody changes something on the way.
#[test]
fn a_client_follows_paths_that_it_keeps() {
    let Some(site) = Site::new("remote::a_client_follows_paths_that_it_keeps") else { return };
    let mount = site.dev(&["--shards", "3"]);
    let deep: PathBuf = (0..10).map(|level| format!("d{level}")).collect();
    fs::create_dir_all(mount.path().join(&deep)).expect("mkdir");
    fs::write(mount.path().join(&deep).join("file"), "x").expect("write");
    let client = client_with(&site, 1 << 20);
    let path = format!("/{}/file", deep.display());
    let asked = |client: &Client| {
        let of_node = site.status().sum("path", &["paths_resolved"]);
        (of_node, client.counters().paths_kept, client.counters().paths_behind)
    };
    let look = || client.stat(&alice(), &path).map(|is| is.size).map_err(|error| error.raw_os_error());
    let mut before = asked(&client);
    wait_until("the client keeps the way", || {
        assert_eq!(look(), Ok(1));
        let now = asked(&client);
        let kept = now.1 > before.1;
        before = now;
        kept
    });
    (0..100).for_each(|_| assert_eq!(look(), Ok(1)));
    assert_eq!(asked(&client), (before.0, before.1 + 100, before.2));
    // What is made there needs no path node either.
    let (me, new) = (Caller::root(), format!("/{}/new", deep.display()));
    client.mkdir(&me, &new, 0o755).expect("mkdir");
    client.rmdir(&me, &new).expect("rmdir");
    assert_eq!(asked(&client), (before.0, before.1 + 102, before.2));
    for (changed, sees) in [(0o700, Err(Some(libc::EACCES))), (0o755, Ok(1))] {
        fs::set_permissions(mount.path().join("d0/d1"), Permissions::from_mode(changed)).expect("chmod");
        assert_eq!(look(), sees);
    }
    fs::rename(mount.path().join("d0/d1"), mount.path().join("d0/moved")).expect("rename");
    assert_eq!(look(), Err(Some(libc::ENOENT)));
    let error = client.mkdir(&me, &new, 0o755).expect_err("the way is gone");
    assert_eq!(error.raw_os_error(), Some(libc::ENOENT));
    let (_, _, behind) = asked(&client);
    assert!(behind > before.2, "{behind}");
    client.close();
    mount.stop();
    site.assert_clean("after kept ways");
}

/// A path node that asks for all directories when it starts needs to be told nothing later, whatever it keeps them in.
#[test]
fn a_path_node_loads_all_directories() {
    let Some(site) = Site::new("remote::a_path_node_loads_all_directories") else { return };
    let deep = |top: usize| (0..20).map(|level| format!("d{top}-{level}")).collect::<PathBuf>();
    for index in ["hi", "mart", "art"] {
        let mount = site.dev(&["--shards", "3"]);
        (0..50).for_each(|top| fs::create_dir_all(mount.path().join(index).join(deep(top))).expect("mkdir"));
        mount.stop();
        let mount = site.dev(&["--shards", "3", "--path-load", "--path-index", index]);
        let of_paths = |counters: &[&str]| site.status().sum("path", counters);
        wait_until("all directories are loaded", || of_paths(&["directories_held"]) > 1_000);
        let client = client_of(&site);
        for top in 0..50 {
            let path = format!("/{index}/{}", deep(top).display());
            // Of root it is known that directories are its own; of others a path node with bits knows no class, and checks.
            [Caller::root(), alice()].iter().for_each(|caller| _ = client.stat(caller, &path).expect("stat"));
        }
        assert_eq!(of_paths(&["names_asked", "paths_asked"]), 0);
        // A request that is sent again is answered, and counted, again.
        let status = site.status();
        let figures =
            ["paths_resolved", "paths_speculated", "paths_checked"].map(|figure| status.sum("path", &[figure]));
        let [resolved, speculated, checked] = figures;
        assert_eq!(speculated + checked, resolved, "{index}");
        let of_root = if index == "hi" { checked >= 100 && speculated == 0 } else { checked >= 50 && speculated >= 50 };
        assert!(of_root, "{index}: {speculated} speculated, {checked} checked");
        let way = mount.path().join(index).join("d7-0");
        fs::set_permissions(&way, Permissions::from_mode(0o700)).expect("chmod");
        let refused = client.stat(&alice(), format!("/{index}/{}", deep(7).display())).expect_err("closed");
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        client.close();
        fs::remove_dir_all(mount.path().join(index)).expect("it goes");
        mount.stop();
    }
    site.assert_clean("after loads");
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
    for path_cache in [0, 1 << 20] {
        let client = client_with(&site, path_cache);
        assert_changes_are_seen(&mount, &client, 5_000);
        assert_eq!(client.counters().paths_behind > 500, path_cache > 0, "{:?}", client.counters());
        client.close();
    }
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
    let tops = places.iter().filter(|place| place.path.components().count() == 1);
    tops.for_each(|top| fs::remove_dir_all(mount.path().join(&top.path)).expect("the tree goes"));
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
