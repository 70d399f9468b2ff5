//! `fathom ui` on the command line.

use std::path::PathBuf;

use clap::Args;
use fathom_metric::notation::NotationError;

use super::StoreArguments;
use super::serve::{Listen, listen_at, name, port};

const EXAMPLES: &str = "\
Examples:
  fathom ui                        show the store in a browser, at http://127.0.0.1:3286/
  fathom ui --store lab.db --listen 8080   another store, another port; 0 lets the kernel choose
  fathom ui --listen 0.0.0.0 --token-file ~/.fathom-token
                                   for other hosts; the token file is made if it is missing

The page lists the runs, by host, label, kind, metric and time; shows a run, also while it is
measured; compares two runs; draws the history of a metric with its change points and what else
changed then; and draws the hosts of a label beside each other. Each view has an address of its own.
Nothing can be changed, and the page loads nothing from elsewhere.

Addresses beyond loopback need a token file. With one, also by FATHOM_TOKEN_FILE, all data need its
token: the printed address has it behind a #, which no request contains. Other programs send it:
curl -H \"Authorization: Bearer $(cat FILE)\". There is no TLS: `ssh -L 3286:127.0.0.1:3286 HOST`
encrypts it, where the server listens on 127.0.0.1 or 0.0.0.0.

Ctrl-C ends it. Making a view takes CPU time on this machine: while it measures, close the page.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct UiArguments {
    /// Listen on this address, port, or both; repeatable [default: localhost:3286, which is
    /// 127.0.0.1 and ::1; with port 0 only 127.0.0.1].
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = listen)]
    pub listen: Vec<Listen>,
    /// Listen on this port of localhost, as --listen PORT.
    #[arg(long, value_name = "PORT", value_parser = port, conflicts_with = "listen")]
    pub port: Option<Listen>,
    /// Require the token in this file; it is made, readable by its owner only, if missing
    /// [default: $FATHOM_TOKEN_FILE].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Accept this name of the server in the Host of requests; repeatable [default: addresses,
    /// localhost and the host name].
    #[arg(long, value_name = "HOST", value_parser = name)]
    pub name: Vec<String>,
    #[command(flatten)]
    pub store: StoreArguments,
}

fn listen(text: &str) -> Result<Listen, NotationError> {
    listen_at(text, fathom_ui::PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_port_is_that_of_the_help() {
        let Listen(all) = listen("localhost").unwrap();
        let all: Vec<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(all, ["127.0.0.1:3286", "[::1]:3286"]);
        assert!(EXAMPLES.contains(&all[0]));
    }
}
