//! The programs that are installed here, run for real: every row has a number in its output.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use fathom_peers::{
    DATA_BYTES, Machine, On, PEERS, Peer, Place, ReadingError, RunError, Runner, is_there,
};

/// Data of which nothing repeats within a block.
fn data(place: &Place) {
    let mut file = File::create(&place.data).expect("a file");
    let mut state = 1_u64;
    let mut block = vec![0; 1 << 20];
    for _ in 0..DATA_BYTES >> 20 {
        for word in block.chunks_exact_mut(8) {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&block).expect("space");
    }
}

/// The package of a peer that cannot run here.
fn missing(peer: &dyn Peer, runner: &Runner<'_>) -> Option<&'static str> {
    if !is_there(peer.program()) {
        return Some(peer.package());
    }
    let (look, package) = peer.library()?;
    runner.run(&look).is_err().then_some(package)
}

#[test]
fn what_installed_programs_print_is_understood() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let place = Place::at(folder.path());
    data(&place);
    let mut host = fathom_record::Host::default();
    host.cpu.allowed = fathom_measure::affinity::allowed();
    let machine = Machine { host: &host, cpu: host.cpu.allowed[0] };
    let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
    let on = |on| Runner {
        stop: stop.as_fd(),
        limit_ns: 60_000_000_000,
        cpus: if on == On::One { vec![machine.cpu] } else { host.cpu.allowed.clone() },
    };
    for peer in PEERS {
        if let Some(package) = missing(*peer, &on(On::All)) {
            let name = peer.name();
            println!("skipped: {name} is missing; install with: sudo apt-get install {package}");
            continue;
        }
        if let Some(maker) = peer.made_by(&place) {
            on(On::All).run(&maker).expect("it is made");
        }
        for row in peer.rows(&machine) {
            let commands = (row.commands)(&place);
            let outputs =
                commands.iter().map(|it| on(row.on).run(it)).collect::<Result<Vec<_>, _>>();
            let outputs = match outputs {
                Ok(outputs) => outputs,
                // A file system without direct reads, a sandbox without perf's calls.
                Err(RunError::Failed(why)) if why.contains("nvalid argument") => {
                    println!("skipped: {}: {why}", row.case());
                    continue;
                }
                Err(error) => panic!("{} {}: {error:?}", peer.name(), row.case()),
            };
            // A slope may be lost to other tests, whose work runs at the same time.
            match (row.parse)(&outputs) {
                Ok(reading) => assert!(reading.value > 0.0, "{} {reading:?}", row.case()),
                Err(error) => assert_eq!(error, ReadingError::NoSlope, "{}", row.case()),
            }
            let _ = std::fs::remove_file(&place.own);
        }
    }
}
