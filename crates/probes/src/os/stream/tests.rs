use super::*;
use crate::smoke;

const CHUNK: usize = 64 << 10;

/// Whether a process sleeps.
fn is_waiting(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.contains(") S ")
}

/// The bytes that a process has written.
fn written_by(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap()
}

fn pipe_on(cpu: u32) -> OsStream {
    OsStream::start(StreamChannel::Pipe, CHUNK, cpu).unwrap()
}

#[test]
fn chunks_arrive_in_order_and_none_is_in_flight() {
    let cpus = affinity::allowed();
    for channel in [StreamChannel::Pipe, StreamChannel::UnixSocket] {
        for cpu in cpus.iter().take(2) {
            smoke::pinned(|_| {
                let mut stream = OsStream::start(channel, CHUNK, *cpu).unwrap();
                assert_eq!((stream.receive(3), stream.receive(0), stream.receive(20)), (3, 0, 20));
                assert_eq!(stream.received, 23);
                // A writer that runs ahead has done so by then.
                assert!(smoke::eventually(|| is_waiting(stream.process())));
                assert_eq!(rustix::io::ioctl_fionread(&stream.input), Ok(0));
                assert_eq!(stream.finish(), Ok(None));
            });
        }
    }
    assert!(smoke::has_no_children());
}

#[test]
fn dead_writer_ends_the_batch_and_is_reported() {
    for channel in [StreamChannel::Pipe, StreamChannel::UnixSocket] {
        smoke::pinned(|cpu| {
            let mut stream = OsStream::start(channel, CHUNK, cpu).unwrap();
            assert_eq!(stream.receive(1), 1);
            stream.kill_writer();
            assert_eq!(stream.receive(1_000_000), 0, "must return, not wait");
            let fault = stream.finish();
            assert!(
                matches!(fault, Err(SamplerFault::WrongWork(text)) if text.contains("signal: 9"))
            );
        });
    }
    assert!(smoke::has_no_children());
}

#[test]
fn writer_killed_within_a_batch_is_reported() {
    smoke::pinned(|cpu| {
        let mut stream = pipe_on(cpu);
        let (done, outcome) = std::thread::scope(|scope| {
            let writer = stream.process();
            scope.spawn(move || {
                assert!(smoke::eventually(|| written_by(writer) > 4 * CHUNK as u64));
                // SAFETY: the writer is not reaped yet, so its pid cannot have been reused.
                unsafe { libc::kill(writer as libc::pid_t, libc::SIGKILL) }
            });
            let done = stream.receive(u64::MAX / 2);
            (done, stream.finish())
        });
        assert!(done > 0);
        assert!(matches!(outcome, Err(SamplerFault::WrongWork(_))), "{outcome:?}");
    });
    assert!(smoke::has_no_children());
}

#[test]
fn writer_on_wrong_cpu_is_reported() {
    let missing = smoke::pinned(|_| pipe_on(1023));
    assert!(missing.finish().unwrap().is_some_and(|text| text.contains("CPU")));
    let Some(other) = smoke::other_than(affinity::allowed()[0]) else {
        return smoke::skipped("one CPU only");
    };
    smoke::pinned(|cpu| {
        let mut stream = pipe_on(cpu);
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
fn wrong_page_numbers_are_found() {
    let mut pages = StreamPages::new(CHUNK);
    pages.number(2);
    assert!(pages.are_numbered(2) && !pages.are_numbered(1), "repeated chunk");
    pages.0.swap(3, 4);
    assert!(!pages.are_numbered(2), "swapped pages");
    assert_eq!(pages.bytes().len(), CHUNK);
    assert_eq!(pages.bytes().as_ptr().addr() % 4096, 0);
}

#[test]
fn lost_chunk_ends_the_count() {
    smoke::pinned(|cpu| {
        let mut stream = pipe_on(cpu);
        assert_eq!(stream.receive(2), 2);
        // As if a chunk had been lost.
        stream.received += 1;
        assert_eq!(stream.receive(40), 0);
        let error = stream.finish().unwrap();
        assert!(error.is_some_and(|text| text.contains("write failed")), "the writer was blocked");
    });
}
