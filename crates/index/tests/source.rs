//! Memory comes from who makes the index, who may advise the system about it, and may have none.

use onpath_index::{Access, DirId, Directory, Grant, Hi, Index, IndexError, PAGE_BYTES, Page, Secret, Slabs};
use std::cell::RefCell;
use std::rc::Rc;

/// Gives so many slabs of 32 pages, and notes where they are.
struct Few {
    left: usize,
    given: Rc<RefCell<Vec<usize>>>,
}

impl Slabs for Few {
    fn pages_log2(&self) -> u32 {
        5
    }

    fn slab(&mut self) -> Option<Vec<Page>> {
        self.left = self.left.checked_sub(1)?;
        let slab = Vec::with_capacity(32);
        self.given.borrow_mut().push(slab.as_ptr() as usize); // here a host calls madvise(2)
        Some(slab)
    }
}

#[test]
fn an_index_takes_the_slabs_that_it_is_given_and_no_more() {
    let given = Rc::default();
    let mut index = Hi::new(Secret::new([1; 16]), Few { left: 3, given: Rc::clone(&given) }, usize::MAX);
    let (access, grant) = (Access::default(), Grant::default());
    index.bind(&Directory::root(access, grant)).unwrap();
    let mut held = 1;
    let full = loop {
        let name = held.to_string();
        let directory = Directory { id: DirId(held + 1), parent: DirId::ROOT, name: name.as_bytes(), access, grant };
        match index.bind(&directory) {
            Ok(_) => held += 1,
            Err(full) => break full,
        }
    };
    assert_eq!((full, given.borrow().len()), (IndexError::Full, 3));
    assert!(held > 3_000 && given.borrow().iter().all(|at| at % PAGE_BYTES == 0));
    for id in 1..=held {
        assert!(index.get(DirId(id)).is_some(), "what is refused changes nothing");
    }
}
