//! Runs the peers that are installed here: every row's output must be parsed.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says so")]

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;

use crate::{
    DATA_BYTES, On, PEERS, Peer, PeerMachine, PeerPlace, RunError, Runner, free_port, is_there,
};

/// Writes incompressible data.
fn data(place: &PeerPlace) {
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

/// The Debian package that is missing for this peer.
fn missing(peer: &dyn Peer, runner: &Runner<'_>) -> Option<&'static str> {
    if !is_there(peer.program()) {
        return Some(peer.package());
    }
    let (look, package) = peer.library()?;
    runner.run(&look).is_err().then_some(package)
}

#[test]
#[ignore = "lab: runs the benchmark programs that are installed"]
fn output_of_installed_peers_is_parsed() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let mut place = PeerPlace::at(folder.path());
    data(&place);
    std::fs::create_dir(&place.served).expect("a folder");
    std::fs::write(place.served.join("4k"), [7; crate::SERVED_BYTES as usize]).expect("space");
    let mut host = fathom_record::Host::default();
    host.cpu.allowed = fathom_measure::affinity::allowed();
    let machine = PeerMachine { host: &host, cpu: host.cpu.allowed[0] };
    let (stop, _never) = rustix::pipe::pipe().expect("a pipe");
    let on = |on| Runner {
        stop: stop.as_fd(),
        limit_ns: 60_000_000_000,
        cpus: if on == On::All { host.cpu.allowed.clone() } else { vec![machine.cpu] },
    };
    for peer in PEERS {
        if let Some(package) = missing(*peer, &on(On::All)) {
            let name = peer.name();
            println!("skipped: {name} is missing; install with: sudo apt-get install {package}");
            continue;
        }
        if let Some(maker) = peer.made_by(&place) {
            on(On::All).run(&maker).expect("the program is built");
        }
        for row in peer.rows(&machine) {
            if row.serves && !is_there(&place.fathom) {
                println!("skipped: {}: fathom, its server, is not in PATH", row.case());
                continue;
            }
            place.port = free_port().expect("a free port");
            let server = row.server.as_ref().map(|server| server(&place));
            let _server = server.map(|server| on(On::All).serve(&server).expect("it listens"));
            let commands = (row.commands)(&place);
            let outputs =
                commands.iter().map(|it| on(row.on).run(it)).collect::<Result<Vec<_>, _>>();
            let outputs = match outputs {
                Ok(outputs) => outputs,
                // File systems without O_DIRECT, sandboxes without perf's system calls.
                Err(RunError::Failed(why)) if why.contains("nvalid argument") => {
                    println!("skipped: {}: {why}", row.case());
                    continue;
                }
                Err(error) => panic!("{} {}: {error:?}", peer.name(), row.case()),
            };
            // Other load may hide a slope.
            if let Err(error) = (row.parse)(&outputs) {
                let no_slope = RunError::Failed("time does not grow with size".to_owned());
                assert_eq!(error, no_slope, "{}", row.case());
            }
            let _ = std::fs::remove_file(&place.own);
        }
    }
}
