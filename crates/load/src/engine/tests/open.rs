//! The open loop.

use fathom_record::{LoadSlot, LoadWindow};

use super::*;

fn uniform(per_second: f64) -> Option<ScheduleRate> {
    Some(ScheduleRate { per_second, arrivals: Arrivals::Uniform })
}

fn timed(window_ns: u64) -> Timing {
    Timing { window_ns, ..TIMING }
}

#[test]
fn requests_due_in_the_window_are_exactly_as_many() {
    for (threads, fresh, arrivals) in
        [(1, false, Arrivals::Uniform), (2, true, Arrivals::Uniform), (2, false, Arrivals::Poisson)]
    {
        let server = EngineServer::start(Manner::Right);
        let rate = Some(ScheduleRate { per_second: 400.0, arrivals });
        let work = Workload { rate, threads, fresh, ..server.work(8) };
        let Outcome { tally, end } = run(&work, timed(500_000_000), &mut |_, _| true).unwrap();
        assert_eq!((end, tally.failed()), (End::Complete, 0));
        let due = tally.window.completed() + tally.window.in_flight;
        assert_eq!(
            tally.window.sent_late.as_ref().map(|late| late.len()),
            Some(due),
            "each was due once"
        );
        if arrivals == Arrivals::Uniform {
            assert_eq!(due, 200);
        }
        let sum = |of: fn(&LoadSlot) -> u64| tally.window.slots.iter().map(of).sum::<u64>();
        assert_eq!(sum(|slot| slot.times.len()), tally.window.completed());
        let from_send = |slot: &LoadSlot| slot.times_from_send.as_ref().map_or(0, |it| it.len());
        assert_eq!(sum(from_send), tally.window.completed());
        assert!(tally.window.backlog.is_some());
    }
}

/// The server holds a response until 20 requests are due, 5 ms apart, and there is one connection.
#[test]
fn stall_delays_all_requests_that_are_due_meanwhile() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let holds = Arc::<AtomicBool>::default();
    let held = Arc::clone(&holds);
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        let body: Vec<u8> = vec![b'x'; BODY];
        while reader.read_line(&mut line).unwrap_or(0) > 0 {
            if std::mem::take(&mut line) != "\r\n" {
                continue;
            }
            while held.load(Relaxed) {
                std::thread::yield_now();
            }
            let _ = answer(&mut stream, Manner::Right, &body);
        }
    });
    let mut released = 0;
    let mut watch = |moment, live: &Live| {
        match moment {
            Moment::Begin => holds.store(true, Relaxed),
            Moment::Running if live.backlog >= 20 && released == 0 => {
                released = live.completed;
                holds.store(false, Relaxed);
            }
            _ => {}
        }
        true
    };
    let work = Workload { rate: uniform(200.0), ..work(address, 1) };
    let Outcome { tally, end } = run(&work, timed(2_000_000_000), &mut watch).unwrap();
    assert_eq!(
        (end, tally.window.completed() + tally.window.in_flight, tally.failed()),
        (End::Complete, 400, 0)
    );
    let sum = |of: &dyn Fn(&LoadSlot) -> f64| tally.window.slots.iter().map(of).sum::<f64>();
    let from_send = sum(&|slot| {
        let times = slot.times_from_send.as_ref().unwrap();
        if times.is_empty() { 0.0 } else { times.mean() * times.len() as f64 }
    });
    // The requests that waited: at least 18, 17, … 1 times 5 ms, in whichever slots.
    let waits = sum(&|slot| slot.sum_ns) - from_send;
    assert!(waits >= 0.99 * 855e6, "{waits}");
    let longest = tally.window.slots.iter().map(|slot| slot.times.max()).fold(0.0, f64::max);
    assert!(longest >= 0.99 * 90e6, "{longest}");
}

#[test]
fn backlog_that_is_not_drained_is_said() {
    let server = EngineServer::start(Manner::Stalls);
    let work = Workload { rate: uniform(200.0), ..server.work(8) };
    let Outcome { tally, end } = run(&work, timed(100_000_000), &mut |_, _| true).unwrap();
    assert_eq!((end, tally.window.completed(), tally.window.in_flight), (End::Complete, 0, 20));
    let LoadWindow { backlog, is_drained, .. } = tally.window;
    let (requests, is_drained) = backlog.zip(is_drained).unwrap();
    assert!(!is_drained && requests >= 19, "{requests}");
    // From when the first request of the window was due, beyond its end.
    assert!(
        tally.window.longest_in_flight_ns >= 100_000_000,
        "{}",
        tally.window.longest_in_flight_ns
    );
}

#[test]
fn open_loop_ends_where_the_server_is_gone() {
    use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
    let silent: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&silent, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(getsockname(&silent).unwrap()).unwrap();
    let work = Workload { rate: uniform(1_000.0), ..work(address, 4) };
    let outcome = run(&work, TIMING, &mut |_, _| true).unwrap();
    assert!(matches!(outcome.end, End::Dead(Fault::Connect(_))), "{:?}", outcome.end);
}
