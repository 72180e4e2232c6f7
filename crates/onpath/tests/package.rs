//! The Debian package and the image: built, looked into, installed into a directory of their own, and run from there.

use crate::common::server::{Site, binary, is_mounted};
use crate::common::{repository, skipped, tool};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs a command, which must succeed, and gives what it printed.
#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    said(&output)
}

/// Builds the package of the binary under test; none where that cannot be.
fn package(test: &str, directory: &Path) -> Option<PathBuf> {
    if tool("dpkg-deb").is_none() {
        skipped(test, "dpkg-deb is missing");
        return None;
    }
    let mut command = Command::new(repository().join("scripts/package"));
    let path = done(command.arg(directory).env("ONPATH_BINARY", binary()));
    Some(PathBuf::from(path.lines().last().expect("the path of the package")))
}

#[test]
fn the_debian_package_installs_and_runs() {
    const TEST: &str = "the_debian_package_installs_and_runs";
    let Some(site) = Site::new(TEST) else { return };
    let Some(package) = package(TEST, &site.root().join("out")) else { return };
    let control = done(Command::new("dpkg-deb").arg("--info").arg(&package));
    for words in ["Package: onpath", "Depends: libc6 (>= 2.", "conffiles", "Version: 0."] {
        assert!(control.contains(words), "{words}: {control}");
    }
    let contents = done(Command::new("dpkg-deb").arg("--contents").arg(&package));
    for path in [
        "./usr/bin/onpath",
        "./usr/sbin/mount.onpath -> ../bin/onpath",
        "./usr/sbin/mount.fuse.onpath -> ../bin/onpath",
        "./usr/share/man/man1/onpath-import.1.gz",
        "./usr/share/man/man8/mount.onpath.8.gz",
        "./usr/share/bash-completion/completions/onpath",
        "./usr/share/zsh/vendor-completions/_onpath",
        "./usr/share/fish/vendor_completions.d/onpath.fish",
        "./usr/lib/systemd/system/onpath-serve.service",
        "./usr/lib/systemd/system/onpath@.service",
        "./usr/lib/sysusers.d/onpath.conf",
        "./usr/share/onpath/systemd/onpath-serve-user.conf",
        "./etc/default/onpath",
    ] {
        assert!(contents.lines().any(|line| line.ends_with(path)), "{path}: {contents}");
    }
    assert!(contents.lines().all(|line| line.contains(" root/root ")), "{contents}");

    let root = site.root().join("root");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).expect("mkdir");
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).expect("mkdir");
    fs::write(root.join("var/lib/dpkg/status"), "").expect("a database without packages");
    let dpkg = |args: &[&str], of: &Path| {
        let mut command = Command::new("dpkg");
        // Nothing else is installed there, no shell either.
        command.arg("--root").arg(&root).args(["--force-depends", "--force-script-chrootless"]).args(args).arg(of);
        done(&mut command)
    };
    dpkg(&["--install"], &package);
    done(
        Command::new("sh")
            .arg("-c")
            .arg("cd \"$1\" && md5sum --quiet -c var/lib/dpkg/info/onpath.md5sums")
            .arg("sh")
            .arg(&root),
    );
    runs(&site, &root);
    dpkg(&["--purge"], Path::new("onpath"));
    assert!(!root.join("usr/bin/onpath").exists() && !root.join("etc/default/onpath").exists());
}

/// Runs a script as root of a system like this one, on which the package never was; what it does there is gone afterwards.
fn on_a_new_system(site: &Site, package: &Path, script: &str) -> String {
    const MOUNT: &str = r#"
        mount -t tmpfs none "$1"
        mkdir "$1/upper" "$1/work" "$1/root"
        mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
        cp "$2" "$1/root/onpath.deb"
        exec chroot "$1/root" sh -euc "$3""#;
    const NEVER: &str = r#"
        dpkg --purge onpath >&2
        rm -rf /etc/onpath /var/lib/onpath /etc/systemd/system/onpath-serve.service.d
        sed -i '/^onpath:/d' /etc/passwd /etc/group /etc/shadow /etc/gshadow
        install() { dpkg --force-depends --install /onpath.deb >&2; }
        own=/etc/systemd/system/onpath-serve.service.d/user.conf"#;
    let place = site.root().join("system");
    fs::create_dir_all(&place).expect("mkdir");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-euc", MOUNT, "sh"]).arg(&place).arg(package);
    let output = command.arg(format!("{NEVER}\n{script}")).output().expect("unshare runs");
    assert!(output.status.success(), "{script}: {}", said(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// The unit of a host gets a user of its own where nothing was before, and only there: what root has served root goes on serving.
#[test]
fn a_new_installation_gets_a_user_of_its_own() {
    const TEST: &str = "a_new_installation_gets_a_user_of_its_own";
    let Some(site) = Site::new(TEST) else { return };
    let Some(package) = package(TEST, &site.root().join("out")) else { return };
    for program in ["systemd-sysusers", "unshare"] {
        if tool(program).is_none() {
            return skipped(TEST, &format!("{program} is missing"));
        }
    }
    if !fs::read_to_string("/proc/filesystems").expect("a list").contains("overlay") {
        return skipped(TEST, "this kernel has no overlay file systems");
    }
    let on_new = |script: &str| on_a_new_system(&site, &package, script);

    let new = "install; stat -c '%a %U' $own; grep User= $own; stat -c '%a' ${own%/*}; getent passwd onpath";
    let found = on_new(new);
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines[..3], ["644 root", "User=onpath", "755"], "{found}");
    assert!(lines[3].starts_with("onpath:") && lines[3].ends_with(":/var/lib/onpath:/usr/sbin/nologin"), "{found}");
    on_new("install; cmp $own /usr/share/onpath/systemd/onpath-serve-user.conf");

    // Whoever has removed the file, to serve as root, is not given it again by an upgrade.
    on_new("install; rm $own; install; test ! -e $own");
    on_new("install; dpkg --purge onpath >&2; test ! -e ${own%/*}");

    for before in ["mkdir /etc/onpath; touch /etc/onpath/cluster.toml", "mkdir /var/lib/onpath"] {
        on_new(&format!("{before}; install; test ! -e $own; ! getent passwd onpath"));
    }
}

/// The first commands of the README, with what the package brings, on a system that has neither /srv nor /mnt yet.
#[test]
fn the_start_of_the_readme_works() {
    const TEST: &str = "the_start_of_the_readme_works";
    let Some(site) = Site::new(TEST) else { return };
    let Some(package) = package(TEST, site.root()) else { return };
    let readme = fs::read_to_string(repository().join("README.md")).expect("the README");
    let start = readme.split("\n## Start\n").nth(1).expect("a section");
    let block = start.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    let (install, commands) = block.split_once('\n').expect("several lines");
    assert_eq!(install, "apt install ./onpath_*.deb");
    assert!(block.lines().count() <= 4, "{block}");
    let root = site.root().join("root");
    // What it depends on is here, and the system of who runs the tests stays as it is.
    done(
        Command::new("dpkg-deb")
            .arg("--extract")
            .arg(site.root().join(package.file_name().expect("a name")))
            .arg(&root),
    );
    let own = "mount -t tmpfs none /srv; mount -t tmpfs none /mnt; mount -t tmpfs none /var/log";
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"]);
    shell.args(["sh", "-ec", &format!("{own}\n{commands}")]);
    shell.env("PATH", format!("{}:{}", root.join("usr/bin").display(), std::env::var("PATH").unwrap_or_default()));
    let said = done(&mut shell);
    assert!(said.lines().any(|line| line == "hello"), "{said}");
}

/// A file system with what is installed below `root`: served, mounted by the helper, used, unmounted.
fn runs(site: &Site, root: &Path) {
    let onpath = root.join("usr/bin/onpath");
    assert!(done(Command::new(&onpath).arg("--version")).starts_with("onpath 0."));
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/onpath@.service")).expect("the unit");
    assert!(unit.contains("ExecStart=/usr/bin/onpath dev %f"));
    let (first, second) = (site.mountpoint(0), site.mountpoint(1));
    done(Command::new(&onpath).args(["dev", "-d", "--log", "warn"]).arg(site.state()).arg(&first));
    fs::write(first.join("f"), "packed").expect("a file");
    done(Command::new(root.join("usr/sbin/mount.onpath")).arg(site.state()).arg(&second).args(["-o", "nosuid"]));
    assert_eq!(fs::read(second.join("f")).expect("read"), b"packed");
    for mountpoint in [second, first] {
        done(Command::new(&onpath).arg("umount").arg(&mountpoint));
        assert!(!is_mounted(&mountpoint));
    }
}

/// Built by whatever builder is here, run by it, removed again.
#[test]
fn the_image_builds_and_runs() {
    const TEST: &str = "the_image_builds_and_runs";
    const TAG: &str = "localhost/onpath-test";
    let mut build = Command::new("timeout");
    build.args(["900"]).arg(repository().join("scripts/image")).arg(TAG).env("ONPATH_BINARY", binary());
    let output = build.output().expect("the script runs");
    let last =
        String::from_utf8_lossy(&output.stdout).lines().rfind(|line| !line.is_empty()).unwrap_or_default().to_owned();
    if output.status.code() == Some(77) {
        return skipped(TEST, &last);
    }
    assert!(output.status.success(), "{}", said(&output));
    let builder = last.split(':').next().expect("BUILDER: TAG");
    let run = match builder {
        "buildah" => r#"c=$(buildah from --pull-never "$1"); buildah run "$c" -- onpath --version; buildah rm "$c""#,
        _ => r#""$2" run --rm "$1" --version"#,
    };
    let like_the_script = |mut command: Command| {
        if builder == "buildah" {
            command.env("BUILDAH_ISOLATION", "chroot").env("STORAGE_DRIVER", "vfs");
        }
        done(&mut command)
    };
    let mut command = Command::new("sh");
    command.args(["-euc", run, "sh", TAG, builder]);
    let version = like_the_script(command);
    assert!(version.contains("onpath 0."), "{version}");
    let mut remove = Command::new(builder);
    remove.args(["rmi", TAG]);
    like_the_script(remove);
}
