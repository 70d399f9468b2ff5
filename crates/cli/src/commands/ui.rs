//! `fathom ui`: the page over a store, until a signal.

mod views;

use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::sync::Arc;

use fathom_measure::clock::monotonic_raw_ns;
use fathom_report::page;
use fathom_service::token_from_file;
use fathom_ui::{Ui, UiOptions};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::report::TEMPLATE;
use super::{serve, stored_run};
use crate::arguments::ui::UiArguments;
use crate::exit::Status;
use crate::interrupt::Interrupt;
use crate::terminal::warn;

pub(super) fn ui(arguments: &UiArguments) -> anyhow::Result<Status> {
    let interrupt = Interrupt::listen_then_quit()?;
    let token_file = serve::token_file(arguments.token_file.as_ref());
    let listen = serve::listen(
        serve::listens(&arguments.listen, arguments.port.as_ref()),
        token_file.is_some(),
    )?;
    let token = token_file.as_deref().map(token_from_file).transpose()?;
    // Views migrate no store: it is done here, and announced.
    drop(stored_run::open_store(&arguments.store)?);
    let shown = stored_run::place(&arguments.store)?.to_string();
    let (secret, names) = (token.clone(), arguments.name.clone());
    let page = Box::leak(page::fetching(&TEMPLATE).into());
    let options = UiOptions { listen, token, names, page, clock: monotonic_raw_ns };
    let ui = Ui::start(options, Arc::new(views::OfStore::new(arguments.store.clone())))?;
    let mut text = format!("Showing {shown}\n");
    // A log of a service would keep the token.
    let secret = secret.filter(|_| std::io::stdout().is_terminal());
    let secret = secret.map(|token| String::from_utf8_lossy(token.bytes()).into_owned());
    for address in ui.addresses() {
        text += &format!("Open        {}\n", link(*address, secret.as_deref()));
    }
    text += &advice(token_file.as_deref(), secret.is_some());
    let printed = super::print_text(&(text + "Stop        Ctrl-C\n"))?;
    let mut wait = [PollFd::from_borrowed_fd(interrupt.as_fd(), PollFlags::IN)];
    let tick = Timespec { tv_sec: 1, tv_nsec: 0 };
    let mut shown_from = 1;
    while printed == Status::Success && !poll(&mut wait, Some(&tick)).is_ok_and(|it| it > 0) {
        let given_up = ui.given_up();
        if given_up >= shown_from {
            shown_from = given_up.saturating_mul(10);
            warn(&format!(
                "{} given up for others: at most 256, and 64 MiB of unread data; `ss -tn` shows \
                 who connects",
                super::counted(given_up as usize, "connection")
            ));
        }
    }
    ui.stop();
    Ok(printed)
}

/// The address for a browser, with the token where no request contains it.
fn link(address: SocketAddr, token: Option<&str>) -> String {
    let mut open = address;
    match address {
        SocketAddr::V4(it) if it.ip().is_unspecified() => open.set_ip(Ipv4Addr::LOCALHOST.into()),
        SocketAddr::V6(it) if it.ip().is_unspecified() => open.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    let token = token.map_or_else(String::new, |token| format!("#token={token}"));
    format!("http://{open}/{token}")
}

fn advice(token_file: Option<&Path>, is_printed: bool) -> String {
    match token_file {
        Some(path) if !is_printed => {
            format!("Token       add `#token=` and the line of {} to the address\n", path.display())
        }
        Some(_) => "Elsewhere   the same with the name of this host; without TLS the token can be \
                    read on the network\n"
            .to_owned(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_address_can_be_opened() {
        for (address, token, expected) in [
            ("127.0.0.1:3286", None, "http://127.0.0.1:3286/"),
            ("0.0.0.0:80", Some("abc"), "http://127.0.0.1:80/#token=abc"),
            ("[::]:80", Some("abc"), "http://[::1]:80/#token=abc"),
            ("10.0.0.1:80", Some("a+/="), "http://10.0.0.1:80/#token=a+/="),
        ] {
            assert_eq!(link(address.parse().unwrap(), token), expected);
        }
    }
}
