//! Memory for an index, in huge pages if the system has some: a table that is looked at all over misses far fewer translations of addresses.

#![allow(unsafe_code)]

use onpath_index::{PAGE_BYTES, Page, Slabs};

/// Slabs of 64 MiB, for which the system is asked for huge pages. Where it has none they have small ones: nothing else changes.
#[derive(Clone, Copy, Debug, Default)]
pub struct HugePages;

impl HugePages {
    const PAGES_LOG2: u32 = 14;
}

impl Slabs for HugePages {
    fn pages_log2(&self) -> u32 {
        HugePages::PAGES_LOG2
    }

    fn slab(&mut self) -> Option<Vec<Page>> {
        let mut slab: Vec<Page> = Vec::new();
        slab.try_reserve_exact(1 << HugePages::PAGES_LOG2).ok()?;
        // SAFETY: the range is the vector's own, begins at a page as `Page` does, and is advice only: what is in it stays the same.
        let advised = unsafe {
            libc::madvise(slab.as_mut_ptr().cast(), PAGE_BYTES << HugePages::PAGES_LOG2, libc::MADV_HUGEPAGE)
        };
        _ = advised; // a kernel without huge pages says so, and is right
        Some(slab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onpath_index::{Access, DirId, Directory, Grant, Hi, Index, IndexError, Secret};
    use std::fs;

    /// The flags of the mapping that has this address.
    fn flags(at: usize) -> String {
        let maps = fs::read_to_string("/proc/self/smaps").expect("Linux has it");
        let mut here = false;
        for line in maps.lines() {
            let range = line.split_whitespace().next().and_then(|word| word.split_once('-'));
            if let Some((Ok(from), Ok(to))) =
                range.map(|(from, to)| (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16)))
            {
                here = (from..to).contains(&at);
            } else if here && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.to_owned();
            }
        }
        panic!("no mapping has {at:#x}")
    }

    #[test]
    fn a_slab_is_empty_and_advised() {
        let slab = HugePages.slab().expect("64 MiB of addresses");
        assert_eq!((slab.len(), slab.capacity()), (0, 1 << HugePages::PAGES_LOG2));
        if fs::exists("/sys/kernel/mm/transparent_hugepage/enabled").expect("sysfs") {
            let middle = slab.as_ptr() as usize + slab.capacity() * PAGE_BYTES / 2;
            assert!(flags(middle).split_whitespace().any(|flag| flag == "hg"), "{}", flags(middle));
        }
    }

    #[test]
    fn an_index_lives_in_it() {
        let mut index = Hi::new(Secret::new([1; 16]), HugePages, 1 << 20);
        let (access, grant) = (Access::default(), Grant::default());
        index.bind(&Directory::root(access, grant)).expect("there is room");
        let mut held = 1;
        let full = loop {
            let name = held.to_string();
            let directory =
                Directory { id: DirId(held + 1), parent: DirId::ROOT, name: name.as_bytes(), access, grant };
            match index.bind(&directory) {
                Ok(_) => held += 1,
                Err(full) => break full,
            }
        };
        assert_eq!(full, IndexError::Full);
        let memory = index.memory();
        assert!(held > 10_000 && memory.reserved > 64 << 20 && memory.touched < 2 << 20, "{held} {memory:?}");
    }
}
