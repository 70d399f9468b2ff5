//! System calls on one file, over and over, with next to nothing between them: what a call costs
//! where its work is small.
//!
//! The instruction stands in the loop itself: no C library is between. Each loop counts the calls
//! that did what they were to do, and nobody looks at the bytes. What is timed is the caller's
//! matter; so is that the file is in memory.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader};

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;

/// What the stream of a program holds of a file: that of Rust and of Java; others hold 4 KiB.
pub const STREAM: usize = 8192;

/// What is done over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// read(2) of so many bytes from where the file stands; at its end it is wound back, which is
    /// no call of those asked for.
    Read(usize),
    /// pread(2) of the first so many bytes, always the same.
    Pread(usize),
    /// lseek(2) to block after block of so many bytes, and again to the first.
    Seek(u64),
    /// fstat(2), which must tell the size.
    Stat,
    /// A byte at a time by way of a buffer of [`STREAM`] bytes in this process, as streams do it:
    /// one read(2) for each buffer.
    Stream,
}

impl Call {
    /// Those that have names, as records have them.
    pub const NAMED: [(&str, Self); 6] = [
        ("read1", Self::Read(1)),
        ("read4", Self::Read(4)),
        ("pread4k", Self::Pread(4096)),
        ("lseek", Self::Seek(4096)),
        ("fstat", Self::Stat),
        ("buffered_read1", Self::Stream),
    ];

    /// The call of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, call)| *call)
    }

    pub fn bytes(self) -> usize {
        match self {
            Self::Read(bytes) | Self::Pread(bytes) => bytes,
            Self::Stream => 1,
            Self::Seek(_) | Self::Stat => 0,
        }
    }
}

/// One call on one file, to be repeated. It goes on where it stood.
#[derive(Debug)]
pub struct Loop<'f> {
    call: Call,
    file: &'f File,
    /// The file's size when this was made.
    size: u64,
    block: Vec<u8>,
    stream: BufReader<&'f File>,
    place: u64,
}

impl<'f> Loop<'f> {
    /// A loop of `call`, which begins at the file's first byte.
    ///
    /// # Errors
    /// Where the file cannot be sought in or told of, and `NODATA` where it is shorter than what
    /// one call is to give.
    pub fn new(call: Call, file: &'f File) -> Result<Self, Errno> {
        rewind(file)?;
        let size = u64::try_from(fstat(file)?.st_size).unwrap_or(0);
        let least = match call {
            Call::Seek(block) => block.max(1),
            _ => call.bytes() as u64,
        };
        if size < least || call == Call::Seek(0) {
            return Err(Errno::NODATA);
        }
        let stream = BufReader::with_capacity(STREAM, file);
        Ok(Self { call, file, size, block: vec![0; call.bytes()], stream, place: 0 })
    }

    /// Makes the call so many times. Returns how many did what they were to do.
    pub fn repeat(&mut self, calls: u64) -> Result<u64, Errno> {
        let Self { call, file, size, block, stream, place } = self;
        match *call {
            Call::Read(bytes) => round_and_round(file, calls, || {
                Ok(rustix::io::read(&**file, &mut **block)? == bytes)
            }),
            Call::Stream => round_and_round(file, calls, || match stream.fill_buf() {
                Ok(held) => {
                    let Some(&byte) = held.first() else { return Ok(false) };
                    // Looked at one by one, as a program does that is given one at a time.
                    block[0] = black_box(byte);
                    stream.consume(1);
                    Ok(true)
                }
                Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
            }),
            Call::Pread(bytes) => {
                count(calls, || Ok(rustix::io::pread(&**file, &mut **block, 0)? == bytes))
            }
            Call::Seek(bytes) => {
                let last = *size - bytes;
                count(calls, || {
                    let to = *place;
                    *place = if to + bytes > last { 0 } else { to + bytes };
                    Ok(seek(&**file, SeekFrom::Start(to))? == to)
                })
            }
            Call::Stat => count(calls, || Ok(fstat(&**file)?.st_size as u64 == *size)),
        }
    }

    /// What the last call gave.
    pub fn last(&self) -> &[u8] {
        &self.block
    }
}

/// How many of so many calls were good.
#[inline(always)]
fn count(calls: u64, mut once: impl FnMut() -> Result<bool, Errno>) -> Result<u64, Errno> {
    let mut good = 0;
    for _ in 0..calls {
        good += u64::from(once()?);
    }
    Ok(good)
}

/// So many good calls, from the beginning of the file again where one is not good.
#[inline(always)]
fn round_and_round(
    file: &File,
    calls: u64,
    mut once: impl FnMut() -> Result<bool, Errno>,
) -> Result<u64, Errno> {
    let mut good = 0;
    let mut was_wound = false;
    while good < calls {
        if once()? {
            good += 1;
            was_wound = false;
        } else if was_wound {
            return Err(Errno::NODATA);
        } else {
            // What a stream held is used up here, so the descriptor alone has a place.
            rewind(file)?;
            was_wound = true;
        }
    }
    Ok(good)
}

/// Winds a file back to its first byte.
fn rewind(file: &File) -> Result<(), Errno> {
    seek(file, SeekFrom::Start(0)).map(|_| ())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn file(bytes: usize) -> File {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
        file.write_all(&bytes).unwrap();
        file
    }

    #[test]
    fn every_loop_does_as_many_calls_as_asked_for_also_beyond_the_end_of_the_file() {
        let file = file(10_001);
        for (name, call) in Call::NAMED {
            let mut again = Loop::new(call, &file).unwrap();
            assert_eq!(again.repeat(12_000), Ok(12_000), "{name}");
            assert_eq!(again.repeat(13_000), Ok(13_000), "{name}");
        }
    }

    #[test]
    fn bytes_are_those_of_the_file_in_order_and_then_of_its_beginning() {
        let file = file(10_000);
        for call in [Call::Read(1), Call::Stream] {
            let mut again = Loop::new(call, &file).unwrap();
            for at in (0..10_000).chain([0, 1]) {
                again.repeat(1).unwrap();
                assert_eq!(again.last(), [(at % 251) as u8], "{call:?} at {at}");
            }
        }
    }

    #[test]
    fn a_file_shorter_than_a_block_is_an_error_and_no_endless_loop() {
        let short = file(3);
        for call in [Call::Read(4), Call::Pread(4), Call::Seek(4), Call::Seek(0)] {
            assert_eq!(Loop::new(call, &short).err(), Some(Errno::NODATA), "{call:?}");
        }
        let empty = tempfile::tempfile().unwrap();
        assert_eq!(Loop::new(Call::Stream, &empty).err(), Some(Errno::NODATA));
        let cut = file(8);
        let mut again = Loop::new(Call::Read(4), &cut).unwrap();
        cut.set_len(3).unwrap();
        assert_eq!(again.repeat(10), Err(Errno::NODATA), "it became too short");
    }

    #[test]
    fn calls_that_did_less_are_not_counted() {
        let cut = file(6000);
        let mut blocks = Loop::new(Call::Pread(4096), &cut).unwrap();
        let mut sizes = Loop::new(Call::Stat, &cut).unwrap();
        assert_eq!((blocks.repeat(10), sizes.repeat(10)), (Ok(10), Ok(10)));
        cut.set_len(4095).unwrap();
        assert_eq!((blocks.repeat(10), sizes.repeat(10)), (Ok(0), Ok(0)));
    }

    #[test]
    fn lseek_goes_to_each_whole_block_in_order_and_again() {
        let file = file(11);
        let mut again = Loop::new(Call::Seek(4), &file).unwrap();
        let places = [0; 5].map(|_| {
            again.repeat(1).unwrap();
            seek(&file, SeekFrom::Current(0)).unwrap()
        });
        assert_eq!(places, [0, 4, 0, 4, 0]);
    }
}
