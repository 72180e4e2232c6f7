//! What a mount is given: requests of the kernel, names, extended attributes, texts of `/proc`.

use crate::memory::for_input;
use onpath_fuse::adapter::{Answers, SessionDriver, SessionFilesystem};
use onpath_fuse::fuzzing;
use onpath_fuse::reply::Replier;
use onpath_fuse::request::{Operation, Request};
use onpath_fuse::serve::Filesystem;
use onpath_fuse::transport::{Notification, Payload, RequestBuffer, Transport, TransportError};
use onpath_session::fs::FsRequest;
use onpath_wire::Wire;
use onpath_wire::acl::Acl;
use onpath_wire::errno::Errno;
use onpath_wire::name::Name;
use onpath_wire::xattr::XattrName;
use std::hint::black_box;
use std::sync::{Arc, Mutex};

/// Nobody reads what is sent.
struct Nobody;

impl Transport for Nobody {
    fn read_request(&self, _: &mut RequestBuffer) -> Result<bool, TransportError> {
        Ok(false)
    }

    fn reply(&self, _: u64, _: i32, _: &[&[u8]]) -> Result<(), TransportError> {
        Ok(())
    }

    fn notify(&self, _: Notification<'_>) -> Result<bool, TransportError> {
        Ok(false)
    }

    fn another_reader(&self) -> Result<Arc<dyn Transport>, TransportError> {
        Ok(Arc::new(Nobody))
    }
}

/// Keeps the number of the last request.
#[derive(Default)]
struct Last(Arc<Mutex<Option<u64>>>);

impl SessionDriver for Last {
    fn submit(&self, request: FsRequest) {
        *self.0.lock().expect("nobody panics with it") = Some(request.unique);
    }
}

/// A request as it is read from /dev/fuse, as far as the session.
pub fn requests(input: &[u8]) {
    let mut bytes = input.to_vec();
    if let Some(length) = bytes.first_chunk_mut::<4>() {
        *length = (input.len() as u32).to_le_bytes();
    }
    let Ok(request) = for_input(bytes.len(), || Request::parse(Payload::borrowed(&bytes))) else { return };
    if let Operation::BatchForget { forgets } = &request.operation {
        black_box(forgets.iter().count());
        return;
    }
    if matches!(
        request.operation,
        Operation::Forget { .. } | Operation::Interrupt { .. } | Operation::Init { .. } | Operation::Destroy
    ) {
        return;
    }
    let (driver, answers) = (Last::default(), Arc::new(Answers::default()));
    let last = driver.0.clone();
    let filesystem = SessionFilesystem::new(driver, answers.clone());
    filesystem.handle(request, Replier::new(1, Arc::new(Nobody)));
    let submitted = last.lock().expect("nobody panics with it").take();
    submitted.into_iter().for_each(|unique| answers.complete(unique, Err(Errno::EIO)));
}

/// Names of files and of extended attributes, and values of those that are ACLs.
pub fn attributes(input: &[u8]) {
    if let Ok(name) = Name::new(input) {
        assert_eq!(Name::from_bytes(&name.to_bytes()).as_ref(), Ok(&name));
        assert_eq!(name.as_bytes(), input);
    }
    if let Ok(name) = XattrName::new(input) {
        black_box(name.namespace().is_ok());
        assert_eq!(XattrName::from_bytes(&name.to_bytes()).as_ref(), Ok(&name));
    }
    let Ok(Some(acl)) = for_input(input.len(), || Acl::from_xattr(input)) else { return };
    assert_eq!(Acl::from_xattr(&acl.to_xattr()), Ok(Some(acl.clone())));
    for mode in [0, 0o640, 0o7777] {
        let changed = acl.with_mode(mode);
        assert_eq!(changed.mode(), mode & 0o777);
        let (given, own) = acl.inherited(mode);
        assert_eq!(given & !mode, 0, "nobody is given more than was asked for");
        assert!(own.is_none_or(|own| own.mode() == given & 0o777));
    }
}

/// A text of `/proc`, of which others choose parts: mountpoints, commands, calls.
pub fn proc(input: &[u8]) {
    for_input(input.len(), || {
        let mounts = fuzzing::mounts(input);
        assert!(mounts.iter().all(|mount| mount.mountpoint.as_os_str().len() <= input.len()));
    });
    for_input(input.len(), || fuzzing::proc_texts(input));
}
