//! `fathom fleet far-end`, hidden: what a member serves to the others, as its child process.

use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;

use anyhow::Context as _;
use fathom_far::{ProcessProgram, nonce};
use fathom_fleet::ChildLine;
use fathom_service::{Options, ServiceServer, token_from_file};
use rustix::event::{PollFd, PollFlags, poll};

use crate::arguments::fleet::FarEndArguments;
use crate::commands::as_member::say;
use crate::exit::Status;
use crate::interrupt::Interrupt;

/// How long far ends may take to end.
const GRACE_NS: u64 = 1_000_000_000;

/// Serves far ends, and no file: its folder is empty and removed. Ends with the member.
pub(super) fn serve(arguments: &FarEndArguments) -> anyhow::Result<Status> {
    let interrupt = Interrupt::listen().context("listen to signals")?;
    let token = Some(token_from_file(&arguments.token_file)?);
    let far = Some(ProcessProgram::this().context("find this program")?);
    let folder = std::env::temp_dir().join(format!("fathom-far-end-{}", &nonce()?[..12]));
    DirBuilder::new().mode(0o700).create(&folder).context("make a folder")?;
    let server = ServiceServer::start(Options {
        listen: vec![SocketAddr::new(arguments.listen, 0)],
        token,
        threads: Some(1),
        lanes: 1,
        far,
        ..Options::new(&folder)
    });
    // The service holds it open; nobody can put a file into it any more.
    std::fs::remove_dir(&folder).context("remove the folder")?;
    let server = server?;
    let address = server.addresses().first().context("an address")?;
    say(&ChildLine::Serving { serving_port: address.port() }).context("report to the member")?;
    let ends = [interrupt.as_fd(), server.panicked()];
    let mut wait = ends.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    while !poll(&mut wait, None).is_ok_and(|ready| ready > 0) {}
    server.stop(GRACE_NS);
    Ok(Status::Interrupted)
}
