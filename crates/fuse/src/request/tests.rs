//! Requests built by hand, and bytes that are none.

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;
use crate::abi::opcode;

/// A request of `opcode` on inode 5 with this body and these extensions.
fn encode(opcode: u32, body: &[&[u8]], extensions: &[u8]) -> Vec<u8> {
    let body = body.concat();
    let header = abi::InHeader {
        len: (size_of::<abi::InHeader>() + body.len() + extensions.len()) as u32,
        opcode,
        unique: 42,
        nodeid: 5,
        uid: 1000,
        gid: 100,
        pid: 77,
        total_extlen: (extensions.len() / 8) as u16,
        padding: 0,
    };
    [header.as_bytes(), &body, extensions].concat()
}

fn parse(bytes: &[u8]) -> Result<Request<'_>, ParseError> {
    Request::parse(Payload::borrowed(bytes))
}

fn reason(result: Result<Request<'_>, ParseError>) -> &'static str {
    match result {
        Err(ParseError::Malformed { unique: 42, reason, .. }) => reason,
        other => panic!("expected a malformed request, got {other:?}"),
    }
}

#[test]
fn the_header_is_kept() {
    let bytes = encode(opcode::LOOKUP, &[b"name\0"], &[]);
    let request = parse(&bytes).unwrap();
    assert_eq!(
        request.header,
        Header { opcode: abi::opcode::LOOKUP, unique: 42, nodeid: 5, uid: 1000, gid: 100, pid: 77 }
    );
    assert!(matches!(request.operation, Operation::Lookup { name } if name == c"name"));
    assert_eq!(request.supplementary_group, None);
}

#[test]
fn create_with_a_supplementary_group() {
    let arg = abi::CreateIn { flags: 0o1102, mode: 0o100_666, umask: 0o22, open_flags: abi::OPEN_KILL_SUIDGID };
    let extension: Vec<u8> = [16u32, abi::EXT_GROUPS, 1, 4711].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let bytes = encode(opcode::CREATE, &[arg.as_bytes(), b"new\0"], &extension);
    let request = parse(&bytes).unwrap();
    assert_eq!(request.supplementary_group, Some(4711));
    let Operation::Create { name, flags, mode, umask, kill_suidgid } = request.operation else {
        panic!("{:?}", request.operation)
    };
    assert_eq!((name, flags, mode, umask, kill_suidgid), (c"new", 0o1102, 0o100_666, 0o22, true));
}

#[test]
fn an_unknown_extension_is_skipped() {
    let words = [16u32, 7, 0, 0, 16, abi::EXT_GROUPS, 1, 9];
    let extensions: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let bytes = encode(opcode::SYMLINK, &[b"name\0target/with/slash\0"], &extensions);
    let request = parse(&bytes).unwrap();
    assert_eq!(request.supplementary_group, Some(9));
    let Operation::Symlink { name, target } = request.operation else { panic!("{:?}", request.operation) };
    assert_eq!((name, target), (c"name", c"target/with/slash"));
}

#[test]
fn rename_in_both_forms() {
    let old = encode(opcode::RENAME, &[abi::RenameIn { newdir: 9 }.as_bytes(), b"a\0b\0"], &[]);
    let new = abi::Rename2In { newdir: 9, flags: 2, padding: 0 };
    let new = encode(opcode::RENAME2, &[new.as_bytes(), b"a\0b\0"], &[]);
    for (bytes, expected) in [(old, 0), (new, 2)] {
        let Ok(Request { operation: Operation::Rename { name, new_parent, new_name, flags }, .. }) = parse(&bytes)
        else {
            panic!("not a rename")
        };
        assert_eq!((name, new_parent, new_name, flags), (c"a", 9, c"b", expected));
    }
}

#[test]
fn write_with_its_data_and_flags() {
    let arg = abi::WriteIn {
        fh: 3,
        offset: 4096,
        size: 5,
        write_flags: abi::WRITE_LOCKOWNER | abi::WRITE_KILL_SUIDGID,
        lock_owner: 11,
        flags: 1,
        padding: 0,
    };
    let bytes = encode(opcode::WRITE, &[arg.as_bytes(), b"hello"], &[]);
    let request = parse(&bytes).unwrap();
    let Operation::Write { handle, offset, data, lock_owner, kill_suidgid, from_cache, .. } = request.operation else {
        panic!("{:?}", request.operation)
    };
    assert_eq!((handle, offset, lock_owner, kill_suidgid, from_cache), (3, 4096, Some(11), true, false));
    assert_eq!(data.as_slice(), b"hello");
    assert_eq!(data.to_bytes(), b"hello"[..]);
    let short = encode(opcode::WRITE, &[arg.as_bytes(), b"hell"], &[]);
    assert_eq!(reason(parse(&short)), "the data is shorter than announced");
}

#[test]
fn locks_of_both_kinds() {
    for (lk_flags, flock) in [(0, false), (abi::LK_FLOCK, true)] {
        let arg = abi::LkIn {
            fh: 1,
            owner: 8,
            lk: abi::FileLock { start: 10, end: i64::MAX as u64, kind: 1, pid: 77 },
            lk_flags,
            padding: 0,
        };
        for (code, blocking) in [(opcode::SETLK, false), (opcode::SETLKW, true)] {
            let bytes = encode(code, &[arg.as_bytes()], &[]);
            let Operation::Setlk { lock, wait } = parse(&bytes).unwrap().operation else { panic!("not a lock") };
            assert_eq!((lock.flock, lock.owner, lock.start, lock.pid, wait), (flock, 8, 10, 77, blocking));
        }
    }
}

#[test]
fn attributes_to_set_follow_the_mask() {
    use abi::fattr;
    let arg = abi::SetattrIn {
        valid: fattr::MODE | fattr::ATIME | fattr::MTIME | fattr::MTIME_NOW | fattr::KILL_SUIDGID,
        mode: 0o100_600,
        uid: 1,
        atime: (-5i64).cast_unsigned(),
        atimensec: 7,
        ..Default::default()
    };
    let bytes = encode(opcode::SETATTR, &[arg.as_bytes()], &[]);
    let Operation::Setattr(set) = parse(&bytes).unwrap().operation else { panic!("not a setattr") };
    let expected = SetAttributes {
        mode: Some(0o100_600),
        atime: Some(SetTime::At { seconds: -5, nanoseconds: 7 }),
        mtime: Some(SetTime::Now),
        kill_suidgid: true,
        ..Default::default()
    };
    assert_eq!(set, expected);
    let bad = abi::SetattrIn { valid: fattr::ATIME, atimensec: 1_000_000_000, ..Default::default() };
    assert_eq!(reason(parse(&encode(opcode::SETATTR, &[bad.as_bytes()], &[]))), "nanoseconds out of range");
}

#[test]
fn tmpfile_ignores_the_kernels_placeholder_name() {
    let arg = abi::CreateIn { flags: 0o20_200_002, mode: 0o100_600, umask: 0o22, open_flags: 0 };
    let bytes = encode(opcode::TMPFILE, &[arg.as_bytes(), b"/\0"], &[]);
    assert!(matches!(parse(&bytes).unwrap().operation, Operation::Tmpfile { mode: 0o100_600, umask: 0o22, .. }));
}

#[test]
fn forgets_in_a_batch() {
    let one = abi::ForgetOne { nodeid: 8, nlookup: 2 };
    let two = abi::ForgetOne { nodeid: 9, nlookup: 1 };
    let head = abi::BatchForgetIn { count: 2, dummy: 0 };
    let bytes = encode(opcode::BATCH_FORGET, &[head.as_bytes(), one.as_bytes(), two.as_bytes()], &[]);
    let Operation::BatchForget { forgets } = parse(&bytes).unwrap().operation else { panic!("not a batch") };
    assert_eq!(forgets.iter().collect::<Vec<_>>(), [one, two]);
    let short = encode(opcode::BATCH_FORGET, &[head.as_bytes(), one.as_bytes()], &[]);
    assert_eq!(reason(parse(&short)), "the data is shorter than announced");
}

#[test]
fn init_with_and_without_flags2() {
    let old = abi::InitIn { major: 7, minor: 31, max_readahead: 1, flags: 1 };
    let bytes = encode(opcode::INIT, &[old.as_bytes()], &[]);
    assert!(matches!(parse(&bytes).unwrap().operation, Operation::Init { flags: 1, minor: 31, .. }));
    let new = abi::InitIn { flags: 1 | abi::init::INIT_EXT as u32, ..old };
    let ext = abi::InitInExt { flags2: 4, unused: [0; 11] };
    let bytes = encode(opcode::INIT, &[new.as_bytes(), ext.as_bytes()], &[]);
    let Operation::Init { flags, .. } = parse(&bytes).unwrap().operation else { panic!("not an init") };
    assert_eq!(flags, 1 | abi::init::INIT_EXT | abi::init::CREATE_SUPP_GROUP);
}

#[test]
fn a_readdir_with_extended_and_plain_forms() {
    let arg = abi::ReadIn { fh: 2, offset: 1 << 62, size: 4096, ..Default::default() };
    for code in [opcode::READDIR, opcode::READDIRPLUS] {
        let bytes = encode(code, &[arg.as_bytes()], &[]);
        let (handle, offset, size) = match parse(&bytes).unwrap().operation {
            Operation::Readdir { handle, offset, size } if code == opcode::READDIR => (handle, offset, size),
            Operation::Readdirplus { handle, offset, size } => (handle, offset, size),
            other => panic!("{other:?}"),
        };
        assert_eq!((handle, offset, size), (2, 1 << 62, 4096));
    }
}

#[test]
fn names_that_are_none_are_refused() {
    assert_eq!(reason(parse(&encode(opcode::LOOKUP, &[b"\0"], &[]))), "a name is empty");
    assert_eq!(reason(parse(&encode(opcode::LOOKUP, &[b"a/b\0"], &[]))), "a name contains '/'");
    assert_eq!(reason(parse(&encode(opcode::LOOKUP, &[b"abc"], &[]))), "a string is not terminated");
    assert_eq!(reason(parse(&encode(opcode::SYMLINK, &[b"a\0b"], &[]))), "a string is not terminated");
}

#[test]
fn lengths_that_lie_are_refused() {
    let mut bytes = encode(opcode::GETATTR, &[abi::GetattrIn::default().as_bytes()], &[]);
    assert_eq!(reason(parse(&bytes[..bytes.len() - 1])), "the header states another length");
    bytes[36] = 200;
    assert_eq!(reason(parse(&bytes)), "extensions longer than the body");
    assert_eq!(parse(&bytes[..39]).unwrap_err(), ParseError::NoHeader { length: 39 });
    assert_eq!(reason(parse(&encode(opcode::OPEN, &[b"123"], &[]))), "the argument structure is cut off");
}

#[test]
fn opcodes_nobody_knows_are_passed_on() {
    for code in [0, 7, 37, 49, 50, 54, 4096, u32::MAX] {
        let bytes = encode(code, &[b"whatever"], &[]);
        assert!(matches!(parse(&bytes).unwrap().operation, Operation::Unknown { opcode } if opcode == code));
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn random_bodies_never_panic(
        code in 0u32..60,
        body in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..200),
        words in prop::collection::vec(prop_oneof![Just(16u32), Just(32), any::<u32>()], 0..8),
    ) {
        let mut extensions: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        extensions.truncate(extensions.len() / 8 * 8);
        if let Ok(request) = parse(&encode(code, &[&body], &extensions)) {
            prop_assert_eq!(request.header.unique, 42);
        }
    }
}
