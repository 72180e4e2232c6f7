//! How much memory a parser takes: all that the process has is counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of memory that a parser may take for one that it is given, and besides.
const A_BYTE: usize = 160;
const BESIDES: usize = 8_192;

/// Bytes that are taken now, and the most since it was last asked.
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

/// The system's memory, counted.
struct Counted;

impl Counted {
    fn take(bytes: usize) {
        let now = TAKEN.fetch_add(bytes, Ordering::Relaxed) + bytes;
        MOST.fetch_max(now, Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counted::take(layout.size());
        // SAFETY: the caller keeps to what `GlobalAlloc` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Counted::take(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        Counted::take(bytes);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, bytes) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        TAKEN.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static MEMORY: Counted = Counted;

/// Does it, which may take at most so many bytes of memory at a time.
pub(crate) fn at_most<T>(bytes: usize, doing: impl FnOnce() -> T) -> T {
    let before = TAKEN.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let done = doing();
    let taken = MOST.load(Ordering::Relaxed) - before;
    assert!(taken <= bytes, "{taken} bytes of memory, and at most {bytes} are allowed");
    done
}

/// Does it, which may take as much memory as it needs for an input of so many bytes.
pub(crate) fn for_input<T>(bytes: usize, doing: impl FnOnce() -> T) -> T {
    at_most(bytes * A_BYTE + BESIDES, doing)
}
