//! How names and words of others are shown, so that a terminal takes none of them for orders, and no name for several lines or words.
//!
//! A name (path, program, device, host) is shown as a shell would take it: quoted only if it has to be, as `ls` does on a terminal and
//! all of GNU's tools do in their messages. Words of others, which are sentences, stay as they are but for what a terminal would obey.
//! A path that a program shall read goes out raw, where that is asked for or where nobody looks at it (a pipe); it does not pass here.

use os_display::{Quotable, Quoted};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::fmt::Write;

/// Names as they are shown.
pub trait Shown {
    /// As a shell takes it: with quotes only where they are needed, control characters and what is no UTF-8 as escapes within `$'…'`.
    fn shown(&self) -> Quoted<'_>;
}

impl<T: AsRef<OsStr> + ?Sized> Shown for T {
    fn shown(&self) -> Quoted<'_> {
        self.as_ref().maybe_quote()
    }
}

/// Somebody else's sentence as one line: what a terminal would obey, a line's end and a tab too, becomes an escape.
pub fn words(text: &[u8]) -> String {
    escaped(&String::from_utf8_lossy(text), |_| false).into_owned()
}

/// A text of several lines, each of which is in order: whatever else a terminal would obey becomes an escape. Names and words in it have
/// been shown already; this keeps what was forgotten, or comes from a library, off the terminal.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| matches!(c, '\n' | '\t'))
}

/// Control characters of ASCII and of the 8-bit sets, and those that turn the direction of writing or end a line in Unicode.
fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, harmless: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_obeyed(c) && !harmless(c)) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_obeyed(c) && !harmless(c) {
            true => _ = write!(safe, "{}", c.escape_default()), // to memory
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    #[test]
    fn a_name_is_quoted_only_where_it_has_to_be() {
        let shown = |name: &[u8]| Path::new(OsStr::from_bytes(name)).shown().to_string();
        assert_eq!(shown(b"/srv/a-b_c.d,e@f:1"), "/srv/a-b_c.d,e@f:1");
        assert_eq!(shown("/srv/Größe".as_bytes()), "/srv/Größe");
        assert_eq!(shown(b"two words"), "'two words'");
        assert_eq!(shown(b"it's"), "\"it's\"");
        assert_eq!(shown(b""), "''");
    }

    #[test]
    fn nothing_in_a_name_reaches_a_terminal_as_an_order() {
        let shown = |name: &[u8]| OsStr::from_bytes(name).shown().to_string();
        assert_eq!(shown(b"a\x1b[2Jb"), r"$'a\x1B[2Jb'");
        assert_eq!(shown(b"a\nonpath: fine"), r"$'a\nonpath: fine'");
        assert_eq!(shown(b"\xff\xfe"), r"$'\xFF\xFE'");
        // Some terminals take U+009B for ESC [.
        assert_eq!(shown("\u{9b}2J".as_bytes()), r"$'\xC2\x9B'$'2J'");
        for byte in (0..0x20).chain([0x7f]) {
            assert!(!shown(&[b'a', byte]).chars().any(char::is_control), "{byte:#x}");
        }
    }

    #[test]
    fn words_are_one_line() {
        assert_eq!(words("no room: 3 µs".as_bytes()), "no room: 3 µs");
        assert_eq!(words(b"no\r\nonpath: \x1b]0;title\x07\xff"), "no\\r\\nonpath: \\u{1b}]0;title\\u{7}\u{fffd}");
        assert_eq!(words("\u{202e}".as_bytes()), "\\u{202e}");
    }

    #[test]
    fn lines_keep_their_ends() {
        assert!(matches!(lines("one\n\ttwo\n"), Cow::Borrowed(_)));
        assert_eq!(lines("one\r\n\x1b[31mtwo\u{9b}\n"), "one\\r\n\\u{1b}[31mtwo\\u{9b}\n");
    }
}
