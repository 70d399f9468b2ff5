use super::*;
use crate::smoke;

const CHUNK: usize = 64 << 10;

fn pipe_on(cpu: u32) -> Stream {
    Stream::start(Channel::Pipe, CHUNK, cpu).unwrap()
}

#[test]
fn chunks_arrive_in_order_and_none_is_in_flight() {
    let _alone = smoke::alone();
    let cpus = affinity::allowed();
    for channel in [Channel::Pipe, Channel::UnixSocket] {
        for cpu in cpus.iter().take(2) {
            smoke::pinned(|_| {
                let mut stream = Stream::start(channel, CHUNK, *cpu).unwrap();
                assert_eq!((stream.receive(3), stream.receive(0), stream.receive(20)), (3, 0, 20));
                assert_eq!(stream.received, 23);
                // Long enough for a writer that runs ahead.
                std::thread::sleep(std::time::Duration::from_millis(20));
                assert_eq!(rustix::io::ioctl_fionread(&stream.input), Ok(0));
                assert_eq!(stream.finish(), Ok(None));
            });
        }
    }
    assert!(smoke::has_no_children());
}

#[test]
fn dead_writer_ends_the_batch_and_is_reported() {
    let _alone = smoke::alone();
    for channel in [Channel::Pipe, Channel::UnixSocket] {
        smoke::pinned(|cpu| {
            let mut stream = Stream::start(channel, CHUNK, cpu).unwrap();
            assert_eq!(stream.receive(1), 1);
            stream.kill_writer();
            assert_eq!(stream.receive(1_000_000), 0, "must return, not wait");
            let fault = stream.finish();
            assert!(matches!(fault, Err(Fault::WrongWork(text)) if text.contains("signal: 9")));
        });
    }
    assert!(smoke::has_no_children());
}

#[test]
fn writer_killed_within_a_batch_is_reported() {
    let _alone = smoke::alone();
    smoke::pinned(|cpu| {
        let mut stream = pipe_on(cpu);
        let (done, outcome) = std::thread::scope(|scope| {
            let writer = stream.process() as libc::pid_t;
            scope.spawn(move || {
                std::thread::sleep(std::time::Duration::from_millis(20));
                // SAFETY: the writer is not reaped yet, so its pid cannot have been reused.
                unsafe { libc::kill(writer, libc::SIGKILL) }
            });
            let done = stream.receive(u64::MAX / 2);
            (done, stream.finish())
        });
        assert!(done > 0);
        assert!(matches!(outcome, Err(Fault::WrongWork(_))), "{outcome:?}");
    });
    assert!(smoke::has_no_children());
}

#[test]
fn writer_on_wrong_cpu_is_reported() {
    let _alone = smoke::alone();
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
    let mut pages = Pages::new(CHUNK);
    pages.number(2);
    assert!(pages.are_numbered(2) && !pages.are_numbered(1), "repeated chunk");
    pages.0.swap(3, 4);
    assert!(!pages.are_numbered(2), "swapped pages");
    assert_eq!(pages.bytes().len(), CHUNK);
    assert_eq!(pages.bytes().as_ptr().addr() % 4096, 0);
}

#[test]
fn lost_chunk_ends_the_count() {
    let _alone = smoke::alone();
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
