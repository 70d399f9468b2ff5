//! The pipe behind standard output: drained, or compared with what a command must write.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// The longest part of a line that is shown.
const SHOWN: usize = 60;
/// Of an output, more than any file of expected ones has.
pub(crate) const OUTPUT_MAX: usize = 2 << 20;
/// Between two looks at whether the run has ended.
const QUIET: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// After the end of a run, what it left behind may write for ever. No pipe has more than this.
const REST_MAX: usize = 1 << 20;

/// Passes on what a run writes, until `take` wants no more: the rest then has no reader, which ends
/// the run.
pub(crate) fn drain(
    pipe: &OwnedFd,
    has_ended: &AtomicBool,
    mut take: impl FnMut(&[u8]) -> bool,
) -> rustix::io::Result<()> {
    let mut part = vec![0; 64 << 10];
    let mut rest = REST_MAX;
    loop {
        // Before the poll: what was written until the end is there then.
        let is_last = has_ended.load(Ordering::Acquire);
        let wait = if is_last { &AT_ONCE } else { &QUIET };
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(wait)) {
            Ok(0) if is_last => return Ok(()),
            Ok(0) | Err(Errno::INTR) => continue,
            Ok(_) => {}
            Err(error) => return Err(error),
        }
        let count = rustix::io::read(pipe, &mut part)?;
        if is_last {
            rest = rest.saturating_sub(count);
        }
        if count == 0 || !take(&part[..count]) || rest == 0 {
            return Ok(());
        }
    }
}

/// The first line in which an output is another one, in words.
pub(crate) fn difference(got: &[u8], expected: &str) -> Option<String> {
    if got == expected.as_bytes() {
        return None;
    }
    let expected: Vec<&[u8]> = expected.as_bytes().split(|byte| *byte == b'\n').collect();
    let got: Vec<&[u8]> = got.split(|byte| *byte == b'\n').collect();
    let same = got.iter().zip(&expected).take_while(|(got, expected)| got == expected).count();
    let shown = |lines: &[&[u8]]| match lines.get(same) {
        None => "its end".to_owned(),
        Some(line) => {
            let line = String::from_utf8_lossy(line);
            format!("`{}`", line.chars().take(SHOWN).collect::<String>().escape_debug())
        }
    };
    let (line, got, expected) = (same + 1, shown(&got), shown(&expected));
    Some(format!("line {line} of its output is {got}, expected {expected}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pipe: OwnedFd, has_ended: bool) -> Vec<u8> {
        let mut got = Vec::new();
        let take = |part: &[u8]| {
            got.extend_from_slice(part);
            got.len() <= OUTPUT_MAX
        };
        drain(&pipe, &AtomicBool::new(has_ended), take).expect("an output");
        got
    }

    #[test]
    fn output_ends_with_its_run_or_at_its_limit() {
        let (out, into) = rustix::pipe::pipe().expect("a pipe");
        rustix::io::write(&into, b"abc").expect("room");
        // Somebody else holds it open.
        assert_eq!(read(out, true), b"abc");
        let (out, into) = rustix::pipe::pipe().expect("a pipe");
        let part = vec![0; 64 << 10];
        let writer = std::thread::spawn(move || {
            (0..).find_map(|count| rustix::io::write(&into, &part).err().map(|it| (count, it)))
        });
        let got = read(out, false);
        assert!(got.len() > OUTPUT_MAX && got.len() <= OUTPUT_MAX + (64 << 10));
        assert!(writer.join().expect("an end").is_some_and(|(_, error)| error == Errno::PIPE));
    }

    #[test]
    fn first_other_line_is_named() {
        assert_eq!(difference(b"a\nb\n", "a\nb\n"), None);
        let of = |got: &[u8], expected| difference(got, expected).expect("a difference");
        assert_eq!(of(b"a\nc\n", "a\nb\n"), "line 2 of its output is `c`, expected `b`");
        assert_eq!(of(b"a", "a\n"), "line 2 of its output is its end, expected ``");
        assert_eq!(of(b"", "a\n"), "line 1 of its output is ``, expected `a`");
        assert_eq!(of(b"\xff", "a"), "line 1 of its output is `\u{fffd}`, expected `a`");
    }
}
