//! Components of a path.

/// One component, and where it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Component<'p> {
    /// Its bytes: never empty, never ".".
    pub name: &'p [u8],
    /// Where it begins in the path.
    pub at: usize,
}

/// The components of a path in order. Slashes in a row are one, and "." is passed over. ".." is a component like any other, which no index
/// has: who walks sees it *missing*, and goes on from the parent.
#[derive(Clone, Debug)]
pub struct Components<'p> {
    path: &'p [u8],
    at: usize,
}

impl<'p> Components<'p> {
    /// Those of a path.
    pub fn new(path: &'p [u8]) -> Components<'p> {
        Components { path, at: 0 }
    }
}

impl<'p> Iterator for Components<'p> {
    type Item = Component<'p>;

    #[inline]
    fn next(&mut self) -> Option<Component<'p>> {
        loop {
            while *self.path.get(self.at)? == b'/' {
                self.at += 1;
            }
            let at = self.at;
            let rest = &self.path[at..];
            let len = slash(rest);
            self.at = at + len;
            if rest[..len] != *b"." {
                return Some(Component { name: &rest[..len], at });
            }
        }
    }
}

/// How many bytes come before the first slash: eight are looked at together.
#[inline]
fn slash(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (number, chunk) in chunks.iter().enumerate() {
        // The lowest byte that is zero has its highest bit set here; higher ones may have it for nothing.
        let other = u64::from_le_bytes(*chunk) ^ (ONES * u64::from(b'/'));
        let zeros = other.wrapping_sub(ONES) & !other & (ONES << 7);
        if zeros != 0 {
            return 8 * number + zeros.trailing_zeros() as usize / 8;
        }
    }
    8 * chunks.len() + rest.iter().position(|&b| b == b'/').unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn of(path: &[u8]) -> Vec<(&[u8], usize)> {
        Components::new(path).map(|c| (c.name, c.at)).collect()
    }

    #[test]
    fn slashes_and_dots_are_passed_over() {
        assert_eq!(of(b""), []);
        assert_eq!(of(b"/"), []);
        assert_eq!(of(b"./."), []);
        assert_eq!(of(b"/a//b/"), [(&b"a"[..], 1), (b"b", 4)]);
        assert_eq!(of(b"a/./../.x"), [(&b"a"[..], 0), (b"..", 4), (b".x", 7)]);
    }

    #[test]
    fn the_first_slash_is_found_wherever_it_is() {
        for len in 0..40 {
            for fill in [b'.', b'0', 0xaf, 0xff, 0x2f ^ 1] {
                let mut bytes = alloc::vec![fill; len];
                assert_eq!(slash(&bytes), len);
                for at in (0..len).rev() {
                    bytes[at] = b'/';
                    assert_eq!(slash(&bytes), at);
                }
            }
        }
    }
}
