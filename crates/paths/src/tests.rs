use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use fathom_fileio::{FileGenerator, XorSum};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

use super::*;
use crate::device::{Presence, Role, flag, presence};

const LIMIT: Duration = Duration::from_secs(60);

pub(crate) fn skipped(reason: &str) {
    say(&format!("skipped: {reason}"));
}

#[expect(clippy::print_stdout, reason = "a test says what it does not cover")]
fn say(text: &str) {
    println!("{text}");
}

/// The paths of this host, with those of the kernel devices if it has them.
fn send_paths() -> Vec<SendPath> {
    let has_device = presence(Role::Sends) == Presence::Usable;
    SendPath::ALL.into_iter().filter(|path| has_device || !path.needs_device()).collect()
}

fn receive_paths() -> Vec<ReceivePath> {
    let has_device = presence(Role::Receives) == Presence::Usable;
    ReceivePath::ALL.into_iter().filter(|path| has_device || !path.needs_device()).collect()
}

fn data(bytes: u64) -> Vec<u8> {
    let mut all = vec![0; bytes as usize];
    FileGenerator::new(bytes).fill(0, &mut all);
    all
}

fn file(content: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    file.rewind().unwrap();
    file
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (near, listener.accept().unwrap().0)
}

/// Sends the files over one connection, whose lengths the receiver knows, or which it ends.
fn sender(
    way: (SendPath, usize, Io),
    files: Vec<Vec<u8>>,
    near: TcpStream,
) -> thread::JoinHandle<Result<Notified, PathError>> {
    thread::spawn(move || {
        let waiter = Waiter::new(way.2, LIMIT).unwrap();
        let mut sending = Sending::new(way.0, way.1)?;
        sending.prepare(near.as_fd(), &waiter).unwrap();
        for content in files {
            let bytes = content.len() as u64;
            send(&mut sending, (file(&content), bytes), near.as_fd(), &waiter)?;
        }
        near.shutdown(Shutdown::Write).unwrap();
        sending.settle(near.as_fd(), 60_000)
    })
}

fn content(mut file: &File) -> Vec<u8> {
    let mut found = Vec::new();
    file.rewind().unwrap();
    file.read_to_end(&mut found).unwrap();
    found
}

fn received(
    way: (ReceivePath, usize, Io),
    length: Option<u64>,
    most: u64,
    far: &TcpStream,
    receiving: &mut Receiving,
) -> Result<Vec<u8>, PathError> {
    let waiter = Waiter::new(way.2, LIMIT).unwrap();
    receiving.prepare(far.as_fd(), &waiter).unwrap();
    let target = tempfile::tempfile().unwrap();
    let (own, progress) = (target.try_clone().unwrap(), AtomicU64::new(7));
    let bytes = receive(receiving, (own, length, most), (far.as_fd(), &waiter), &progress)?;
    assert_eq!(progress.into_inner(), bytes + 7);
    let found = content(&target);
    assert_eq!(found.len() as u64, bytes);
    Ok(found)
}

#[test]
fn content_arrives_by_every_path() {
    let files = [0, 1, 511, 4096, 70_001].map(data);
    let together = files.iter().map(Vec::len).sum::<usize>() as u64;
    let receive_paths = receive_paths();
    for send_path in send_paths() {
        for &receive_path in &receive_paths {
            for io in Io::ALL {
                for size in [512, 4096, 65_536] {
                    let (near, far) = connection();
                    let sent = sender((send_path, size, io), files.to_vec(), near);
                    let mut receiving = Receiving::new(receive_path, size).unwrap();
                    let way = (receive_path, size, io);
                    for expected in &files {
                        let length = expected.len() as u64;
                        let found = received(way, Some(length), 0, &far, &mut receiving).unwrap();
                        assert!(&found == expected, "{send_path} {receive_path} {io:?} {size}");
                    }
                    sent.join().unwrap().unwrap();
                    // All in one file, which ends with the connection.
                    let (near, far) = connection();
                    let sent = sender((send_path, size, io), files.to_vec(), near);
                    let found = received(way, None, together, &far, &mut receiving).unwrap();
                    assert!(found == files.concat(), "{send_path} {receive_path} {io:?} {size}");
                    sent.join().unwrap().unwrap();
                }
            }
        }
    }
}

/// The other tests have the paths of the devices if this one is not skipped.
#[test]
fn page_behind_the_window_of_a_device_is_known() {
    for role in [Role::Sends, Role::Receives] {
        if let Presence::Missing(obstacle) = presence(role) {
            return skipped(&format!("paths of {}: {obstacle}", role.path()));
        }
    }
    let (near, far) = connection();
    let waiter = Waiter::new(Io::Blocking, LIMIT).unwrap();
    let mut sending = Sending::new(SendPath::DeviceMmap, 4096).unwrap();
    sending.watch_page(true);
    sending.prepare(near.as_fd(), &waiter).unwrap();
    send(&mut sending, (file(&data(5000)), 5000), near.as_fd(), &waiter).unwrap();
    let Some(Page::Table(entry)) = sending.page() else { panic!("{:?}", sending.page()) };
    let expected = flag::MAPPED | flag::PRESENT | flag::WRITE | flag::LEAF;
    assert_eq!((entry.flags & expected, entry.page_bytes), (expected, 4096));
    drop((near, sending));
    let mut receiving = Receiving::new(ReceivePath::DeviceMmap, 8192).unwrap();
    let way = (ReceivePath::DeviceMmap, 8192, Io::Blocking);
    assert!(received(way, Some(5000), 0, &far, &mut receiving).unwrap() == data(5000));
    let large = Sending::new(SendPath::DeviceMmap, device::WINDOW_MAX + 4096);
    assert!(large.is_err(), "a window of more than 16 MiB");
}

#[test]
fn missing_device_is_named() {
    if presence(Role::Sends) == Presence::Usable {
        return skipped("this host has the devices");
    }
    let sending = Sending::new(SendPath::DeviceMmap, 4096).unwrap_err().to_string();
    assert!(sending.starts_with("/dev/fathom_master: "), "{sending}");
    let receiving = Receiving::new(ReceivePath::DeviceCopy, 4096).unwrap_err().to_string();
    assert!(receiving.starts_with("/dev/fathom_slave: "), "{receiving}");
}

#[test]
fn end_of_connection_and_excess_are_errors() {
    for path in receive_paths() {
        for (length, most) in [(Some(1001), 0), (None, 999)] {
            let (mut near, far) = connection();
            near.write_all(&data(1000)).unwrap();
            near.shutdown(Shutdown::Write).unwrap();
            let mut receiving = Receiving::new(path, 128).unwrap();
            let found = received((path, 128, Io::Blocking), length, most, &far, &mut receiving);
            match length {
                Some(_) => assert!(
                    matches!(found, Err(PathError::Short { found: 1000, expected: 1001 })),
                    "{path}: {found:?}"
                ),
                None => assert!(
                    matches!(found, Err(PathError::TooLong { most: 999 })),
                    "{path}: {found:?}"
                ),
            }
        }
    }
}

#[test]
fn full_disk_is_named_by_every_path() {
    fathom_lab::isolate_mounts!();
    let folder = tempfile::tempdir().unwrap();
    let mut mount = std::process::Command::new("mount");
    // No multiple of a segment, so that one ends beyond it.
    mount.args(["-t", "tmpfs", "-o", "size=2068k", "none"]).arg(folder.path());
    assert!(mount.status().unwrap().success());
    let waiter = Waiter::new(Io::Blocking, LIMIT).unwrap();
    for path in receive_paths() {
        let (near, far) = connection();
        let sent = sender((SendPath::Copy, 4096, Io::Blocking), vec![data(4 << 20)], near);
        let mut receiving = Receiving::new(path, 1 << 20).unwrap();
        receiving.prepare(far.as_fd(), &waiter).unwrap();
        let target = tempfile::tempfile_in(folder.path()).unwrap();
        let file = (target, Some(4 << 20), 0);
        let found = receive(&mut receiving, file, (far.as_fd(), &waiter), &AtomicU64::new(0));
        let found = found.unwrap_err().to_string();
        assert!(found.contains("no space left on the device; "), "{path}: {found}");
        drop(far);
        let _ = sent.join();
    }
}

#[test]
fn file_that_became_shorter_is_an_error() {
    for path in send_paths() {
        let (near, far) = connection();
        let waiter = Waiter::new(Io::Blocking, LIMIT).unwrap();
        let mut sending = Sending::new(path, 4096).unwrap();
        sending.prepare(near.as_fd(), &waiter).unwrap();
        let short = (file(&data(10_000)), 20_000);
        let drained = thread::spawn(move || {
            // Until the other end closes.
            let _ = std::io::copy(&mut &far, &mut std::io::sink());
        });
        let sent = send(&mut sending, short, near.as_fd(), &waiter);
        assert!(sent.is_err(), "{path}");
        drop((near, sending));
        drained.join().unwrap();
    }
}

/// Without the signal a wait would look again only now and then.
#[test]
fn async_sockets_signal_this_thread() {
    let (near, _far) = connection();
    for io in Io::ALL {
        let waiter = Waiter::new(io, LIMIT).unwrap();
        waiter.prepare(near.as_fd(), false).unwrap();
        let flags = rustix::fs::fcntl_getfl(&near).unwrap().bits();
        assert_eq!(flags & libc::O_ASYNC as u32 != 0, io == Io::Async);
    }
    // SAFETY: the call has no pointer.
    let owner = unsafe { libc::fcntl(near.as_raw_fd(), libc::F_GETOWN) };
    assert_eq!(owner, rustix::thread::gettid().as_raw_nonzero().get());
}

#[test]
fn wait_without_progress_ends() {
    let limit = Duration::from_millis(20);
    for path in receive_paths() {
        for io in Io::ALL {
            // read(2) of the device has a time-out of its own.
            if (path, io) == (ReceivePath::DeviceCopy, Io::Blocking) {
                continue;
            }
            let (_near, far) = connection();
            let waiter = Waiter::new(io, limit).unwrap();
            let mut receiving = Receiving::new(path, 4096).unwrap();
            receiving.prepare(far.as_fd(), &waiter).unwrap();
            let target = (tempfile::tempfile().unwrap(), Some(1), 1);
            let found = receive(&mut receiving, target, (far.as_fd(), &waiter), &AtomicU64::new(0));
            assert!(matches!(found, Err(PathError::TimedOut(_))), "{path} {io:?}: {found:?}");
        }
    }
}

#[test]
fn kernel_says_whether_pages_were_copied() {
    let (near, far) = connection();
    let content = data(1 << 20);
    let sent = sender((SendPath::Zerocopy, 65_536, Io::Blocking), vec![content.clone()], near);
    let mut receiving = Receiving::new(ReceivePath::Copy, 65_536).unwrap();
    let way = (ReceivePath::Copy, 65_536, Io::Blocking);
    let length = Some(content.len() as u64);
    assert!(received(way, length, 0, &far, &mut receiving).unwrap() == content);
    let notified = sent.join().unwrap().unwrap();
    assert!(notified.sent >= 16 && notified.is_complete(), "{notified:?}");
    // Loopback always copies.
    assert!(notified.copied > 0, "{notified:?}");
}

/// A byte that is changed, lost, repeated, or swapped with another.
fn corrupt(bytes: &mut Vec<u8>, random: &mut Xoshiro256PlusPlus) {
    let before = bytes.clone();
    while *bytes == before {
        let mut place = || (random.next_u64() % bytes.len() as u64) as usize;
        let (at, other, what) = (place(), place(), place() % 4);
        match what {
            0 => bytes[at] ^= 1 << (other % 8),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, bytes[at]),
            _ => bytes.swap(at, other),
        }
    }
}

#[test]
fn sums_tell_every_wrong_byte() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let right = data(24_114);
    let expected = XorSum::over(&right);
    let paths = receive_paths();
    for round in 0..1000 {
        let mut wrong = right.clone();
        corrupt(&mut wrong, &mut random);
        let (near, far) = connection();
        let path = paths[round % paths.len()];
        let sent = sender((SendPath::Copy, 4096, Io::Blocking), vec![wrong], near);
        let mut receiving = Receiving::new(path, 4096).unwrap();
        let way = (path, 4096, Io::Blocking);
        let found = received(way, None, 1 << 20, &far, &mut receiving).unwrap();
        sent.join().unwrap().unwrap();
        assert_ne!(XorSum::over(&found), expected, "round {round}");
    }
}
