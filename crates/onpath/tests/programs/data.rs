//! Programs that check file contents: fio and fsx.

use crate::common::server::Site;
use crate::common::{Over, number_from_env, sys};
use crate::programs::{installed, sh};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// `fio --verify` reads back what it wrote, in blocks of several sizes, through the page cache and past it.
#[test]
fn fio() {
    if !installed("fio --verify", &["fio"]) {
        return;
    }
    let Some(site) = Site::new("fio --verify") else { return };
    let mount = site.dev(&[]);
    let common = "--ioengine=psync --fallocate=none --verify=crc32c --verify_fatal=1 --do_verify=1 --randseed=7 --output=fio.log";
    for (name, direct, rw, bs, size) in [
        ("small", 0, "randwrite", "4k", "12m"),
        ("small-direct", 1, "randwrite", "4k", "12m"),
        ("odd", 0, "randwrite", "1536-50k", "24m"),
        ("large", 0, "write", "1m", "48m"),
        ("large-direct", 1, "randwrite", "256k", "48m"),
        ("mixed", 0, "randrw", "16k", "16m"),
    ] {
        let one = format!("--name={name} --direct={direct} --rw={rw} --bs={bs} --bsrange={bs} --size={size}");
        let one = if bs.contains('-') {
            one.replace(&format!("--bs={bs} "), "")
        } else {
            one.replace(&format!(" --bsrange={bs}"), "")
        };
        sh(mount.path(), &format!("fio {common} {one} || {{ cat fio.log; exit 1; }}"), &[]);
    }
    let threads = "--name=several --numjobs=4 --rw=randwrite --bs=8k --size=6m --fsync=64";
    sh(mount.path(), &format!("fio {common} {threads} || {{ cat fio.log; exit 1; }}"), &[]);
    mount.stop();
    site.assert_clean("after fio");
}

/// cp and fallocate(1) leave the bytes and make or keep the holes that they say.
#[test]
fn sparse_files() {
    if !installed("cp and fallocate", &["cp", "fallocate", "cmp", "truncate", "du"]) {
        return;
    }
    let Some(site) = Site::new("cp and fallocate") else { return };
    let mount = site.dev(&[]);
    let script = r#"
        kib() { set -- $(du -k "$1"); echo "$1"; }
        head -c 3000000 /dev/urandom > data
        truncate -s 40M f
        dd if=data of=f bs=1000 seek=9000 conv=notrunc status=none
        for how in auto always never; do
            cp --sparse=$how f copy-$how
            cmp f copy-$how
        done
        test $(kib copy-auto) -le $(kib f)
        test $(kib copy-always) -le $(kib f)
        test $(kib copy-never) -ge 40000
        fallocate -d copy-never
        cmp f copy-never
        test $(kib copy-never) -le 4000
        fallocate -l 60M f
        test $(kib f) -ge 60000
        cmp -n 40M f copy-auto
        fallocate -p -o 0 -l 60M f
        test $(kib f) -eq 0
        cmp -n 60M f /dev/zero
        : > small
        fallocate -n -l 10M small
        test $(stat -c %s small) -eq 0
        test $(kib small) -ge 10000
        cp data z
        fallocate -z -o 1000 -l 1000000 z
        cmp -n 1000 z data
        cmp -i 1001000 z data
        cmp -n 1000000 -i 1000:0 z /dev/zero
    "#;
    sh(mount.path(), script, &[]);
    mount.stop();
    site.assert_clean("after cp and fallocate");
}

/// Weights of fsx's operations; the two that a file system may refuse are set by what the mount does.
fn fsx_settings(length: usize, operation: usize, fallocates: [bool; 2]) -> String {
    let [allocate, punch] = fallocates.map(i32::from);
    format!(
        "flen = {length}\n[opsize]\nmax = {operation}\n[weights]\nclose_open = 1\nread = 10\nwrite = 10\nmapread = 10\n\
         mapwrite = 10\ninvalidate = 1\ntruncate = 5\nfsync = 0.5\nfdatasync = 0.5\nposix_fallocate = {allocate}\n\
         punch_hole = {punch}\nsendfile = 3\nposix_fadvise = 1\ncopy_file_range = 3\n"
    )
}

fn fallocates(top: &Path) -> [bool; 2] {
    let path = top.join("probe");
    fs::write(&path, [1; 8192]).expect("a file");
    let file = fs::OpenOptions::new().write(true).open(&path).expect("open");
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    [0, punch].map(|mode| sys::fallocate(&file, mode, 0, 4096).is_ok())
}

/// fsx on one file after another, each from a seed of its own: some small files, and some over several chunks.
fn run_fsx(site: &Site, top: &Path, small: usize, large: usize) {
    let fallocates = fallocates(top);
    for (name, length, operation, operations, seeds) in
        [("small", 256 << 10, 64 << 10, 2500, 0..small), ("large", 10 << 20, 600 << 10, 250, 0..large)]
    {
        let settings = site.root().join(format!("{name}.toml"));
        fs::write(&settings, fsx_settings(length, operation, fallocates)).expect("a file");
        for seed in seeds {
            let file = top.join(format!("{name}{seed}"));
            let artifacts = site.root().join(format!("artifacts-{name}{seed}"));
            fs::create_dir(&artifacts).expect("mkdir");
            let script = format!(
                r#"fsx -q -N {operations} -S {seed} -f "$1" -P "$2" "$3" 2>&1 || {{ tail -60 "$2"/*; exit 1; }}"#
            );
            sh(site.root(), &script, &[&settings, &artifacts, &file]);
        }
    }
}

/// Random operations on one file from fixed seeds, every read compared.
#[test]
fn fsx() {
    if !installed("fsx", &["fsx"]) {
        return;
    }
    let Some(site) = Site::new("fsx") else { return };
    let mount = site.dev(&[]);
    let small = number_from_env("ONPATH_FSX_SEEDS", 6);
    run_fsx(&site, mount.path(), small, small / 3);
    mount.stop();
    site.assert_clean("after fsx");
}

/// The same while another mount looks at each file again and again: who has answered a write, and who knows of it, changes all the time.
#[test]
fn fsx_while_another_mount_looks() {
    if !installed("fsx on one of two mounts", &["fsx"]) {
        return;
    }
    let Some(site) = Site::new("fsx on one of two mounts") else { return };
    let mount = site.dev(&[]);
    let other = site.mount(1, &[]);
    let over = Over::default();
    let seen = std::thread::scope(|scope| {
        let looking = scope.spawn(|| look_until(&over, other.path()));
        {
            let _over = over.at_end();
            let small = number_from_env("ONPATH_FSX_SEEDS", 6);
            run_fsx(&site, mount.path(), small / 6, small / 12);
        }
        looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    assert!(seen > 10, "{seen} bytes have been seen");
    other.stop();
    mount.stop();
    site.assert_clean("after fsx on one of two mounts");
}

/// Looks at all files of a directory by their names, and at each by a descriptor, whose bytes it reads; how many bytes it has read.
fn look_until(over: &Over, top: &Path) -> usize {
    let mut seen = 0;
    while !over.is() {
        for entry in fs::read_dir(top).expect("readdir") {
            let path = entry.expect("an entry").path();
            let file = fs::File::open(&path).expect("open");
            let by_name = fs::metadata(&path).expect("stat").len();
            let by_descriptor = file.metadata().expect("fstat").len();
            assert!(by_name.max(by_descriptor) <= 10 << 20, "fsx makes no file of {by_name} or {by_descriptor} bytes");
            let mut bytes = vec![0; 64 << 10];
            seen += file.read_at(&mut bytes, by_descriptor / 2).expect("read");
        }
    }
    seen
}
