//! Tests of the stream from a writer to the worker.

use super::*;
use crate::smoke;

const CHUNK: usize = 64 << 10;

fn other_than(cpu: u32) -> Option<u32> {
    affinity::allowed().into_iter().find(|other| *other != cpu)
}

#[test]
fn bytes_come_in_order_and_the_writer_leaves_well() {
    let _alone = smoke::alone();
    let cpus = affinity::allowed();
    for carrier in [Carrier::Pipe, Carrier::UnixSocket] {
        for cpu in cpus.iter().take(2) {
            smoke::pinned(|_| {
                let mut stream = Stream::start(carrier, CHUNK, *cpu).unwrap();
                assert_eq!((stream.receive(3), stream.receive(0), stream.receive(20)), (3, 0, 20));
                assert_eq!(stream.received(), 23);
                assert_eq!(stream.finish(), Ok(None));
            });
        }
    }
    assert!(smoke::has_no_children());
}

#[test]
fn nothing_is_under_way_between_two_batches() {
    let _alone = smoke::alone();
    for carrier in [Carrier::Pipe, Carrier::UnixSocket] {
        smoke::pinned(|cpu| {
            let mut stream = Stream::start(carrier, CHUNK, cpu).unwrap();
            assert_eq!(stream.receive(5), 5);
            // Long enough for a writer that runs ahead.
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert_eq!(rustix::io::ioctl_fionread(&stream.input), Ok(0));
            assert_eq!(stream.finish(), Ok(None));
        });
    }
}

#[test]
fn a_writer_that_dies_is_seen_and_ends_no_batch() {
    let _alone = smoke::alone();
    for carrier in [Carrier::Pipe, Carrier::UnixSocket] {
        smoke::pinned(|cpu| {
            let mut stream = Stream::start(carrier, CHUNK, cpu).unwrap();
            assert_eq!(stream.receive(1), 1);
            stream.kill_writer();
            assert_eq!(stream.receive(1_000_000), 0, "the end of the stream, and no waiting");
            let fault = stream.finish();
            assert!(matches!(fault, Err(Fault::WrongWork(text)) if text.contains("signal: 9")));
        });
    }
    assert!(smoke::has_no_children());
}

#[test]
fn a_writer_that_dies_in_the_middle_of_a_batch_is_seen() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let mut stream = Stream::start(Carrier::Pipe, CHUNK, cpu).unwrap();
        let (done, status) = std::thread::scope(|scope| {
            let writer = stream.process() as libc::pid_t;
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(20));
                // SAFETY: the writer is not reaped yet, so its number is nobody else's.
                unsafe { libc::kill(writer, libc::SIGKILL) }
            });
            let done = stream.receive(u64::MAX / 2);
            (done, stream.finish())
        });
        assert!(done > 0, "some chunks came before");
        assert!(matches!(status, Err(Fault::WrongWork(_))), "{status:?}");
    });
    assert!(smoke::has_no_children());
}

#[test]
fn a_worker_that_goes_leaves_no_writer() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| drop(Stream::start(Carrier::UnixSocket, CHUNK, cpu).unwrap()));
    assert!(smoke::has_no_children());
}

#[test]
fn a_writer_on_another_cpu_than_meant_tells_it() {
    let _alone = smoke::alone();
    let nowhere = smoke::pinned(|_| Stream::start(Carrier::Pipe, CHUNK, 1023).unwrap());
    assert!(nowhere.finish().unwrap().is_some_and(|text| text.contains("CPU")));
    let Some(other) = other_than(affinity::allowed()[0]) else {
        return smoke::skipped("one CPU only, and nowhere else to run");
    };
    smoke::pinned(|cpu| {
        let mut stream = Stream::start(Carrier::Pipe, CHUNK, cpu).unwrap();
        assert_eq!(stream.receive(1), 1);
        let writer = rustix::process::Pid::from_raw(stream.process() as i32);
        let mut set = rustix::thread::CpuSet::new();
        set.set(other as usize);
        rustix::thread::sched_setaffinity(writer, &set).unwrap();
        assert_eq!(stream.receive(1), 1);
        assert!(stream.finish().unwrap().is_some_and(|text| text.contains("CPU")));
    });
}

#[test]
fn a_page_that_is_not_its_own_is_seen() {
    let mut pages = Pages::new(CHUNK);
    pages.number(2);
    assert!(pages.are_numbered(2) && !pages.are_numbered(1), "a chunk that is repeated");
    pages.0.swap(3, 4);
    assert!(!pages.are_numbered(2), "pages that changed places");
    assert_eq!(pages.bytes().len(), CHUNK);
    assert_eq!(pages.bytes().as_ptr().addr() % 4096, 0);
}

#[test]
fn a_stream_with_a_foreign_byte_in_it_counts_no_further() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let mut stream = Stream::start(Carrier::Pipe, CHUNK, cpu).unwrap();
        assert_eq!(stream.receive(2), 2);
        // As if a chunk had been lost.
        stream.received += 1;
        assert_eq!(stream.receive(40), 0);
        let wrong = stream.finish().unwrap();
        assert!(wrong.is_some_and(|text| text.contains("write")), "a writer that waits to write");
    });
}

#[test]
fn each_way_to_leave_has_words_of_its_own() {
    assert_eq!(wrong_by(Leaving::Well as i32), None);
    let words = |status| wrong_by(status).unwrap();
    assert!(words(Leaving::Broken as i32).contains("write"));
    assert!(words(ORPHANED).contains("gone"));
    assert!(words(77).contains("77"));
}
