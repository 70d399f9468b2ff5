//! The options of `fathom fetch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use fathom_load::https::Https;
use fathom_load::message::field;
use fathom_metric::notation::{NotationError, time};
use fathom_paths::ReceivePath;

const EXAMPLES: &str = "\
Examples:
  fathom fetch http://HOST:3284/data.img          download into this folder
  fathom fetch http://HOST/a http://HOST/b -o DIR
  fathom fetch https://HOST/data.img --cacert ca.pem
  fathom fetch http://HOST/data.img --sum         print its checksums, as `fathom file fast` does
  fathom fetch http://HOST/data.img --connections 4 --receive mmap
  fathom fetch http://HOST/data.img -H 'Accept: application/octet-stream' --token-file token

The file gets its name when it is complete, has the announced length and is on the disk; until then
it is NAME.part, and NAME.part.state has what a later run needs to resume: run the same command
again. Only a file with a strong ETag is resumed; if it changed, or the server's ranges are wrong,
the download starts anew. A resumed part begins 4 KiB before what is missing, and these must be the
bytes that are there. An ETag may stay as it is while the content changes, as at a write to a
memory-mapped file: where files change in place, compare the --sum of both ends. A body with a
Content-Encoding is refused: none is asked for. Redirects are followed within the same
scheme, host and port. By https the certificate must be valid for the host, by the roots of the
system or --cacert.

Exit status: 0 all files are complete, 1 one is not, 2 wrong usage, 130 Ctrl-C.";

/// Download files over HTTP, resumed and verified.
#[derive(Debug, Parser)]
#[command(after_help = EXAMPLES)]
pub struct Fetch {
    /// URLs of the files.
    #[arg(required = true, value_name = "URL")]
    pub urls: Vec<String>,
    /// Folder for the files; for one URL also the name of the file.
    #[arg(long, short, value_name = "DIR|FILE", default_value = ".")]
    pub output: PathBuf,
    /// Replace existing regular files, and unfinished ones of other programs.
    #[arg(long)]
    pub force: bool,
    /// How bodies get from the socket to the file.
    #[arg(long, value_enum, value_name = "PATH", default_value_t = Receive::Copy)]
    pub receive: Receive,
    /// Connections for one file from 16 MiB, if the server has ranges and a strong ETag.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    pub connections: u16,
    /// Print XOR-32 and position sum.
    #[arg(long)]
    pub sum: bool,
    /// Retries after a lost connection, a status 408, 500, 502, 503 or 504, or 429 with
    /// Retry-After; 1 MiB of progress renews them. A server that asks for a pause above 60 s ends
    /// the download.
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub retries: u32,
    /// Add a header field to each request; can be repeated.
    #[arg(long, short = 'H', value_name = "NAME: VALUE", value_parser = own_field)]
    pub header: Vec<String>,
    /// Send the token in this file (Authorization: Bearer).
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Congestion control of the sockets [default: the system's].
    #[arg(long, value_name = "NAME")]
    pub congestion: Option<String>,
    #[command(flatten)]
    pub https: Https,
    /// Time limit of a connect.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = time)]
    pub connect_timeout: Duration,
    /// Longest time without a byte of the body, or to the end of a head.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = time)]
    pub timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Receive {
    /// recv(2) into a buffer, pwrite(2).
    Copy,
    /// recv(2) into a mapping of the file.
    Mmap,
    /// splice(2) into a pipe, and on into the file.
    Splice,
}

impl Receive {
    pub fn path(self) -> ReceivePath {
        match self {
            Self::Copy => ReceivePath::Copy,
            Self::Mmap => ReceivePath::Mmap,
            Self::Splice => ReceivePath::Splice,
        }
    }
}

/// A header field that does not change what the response is.
fn own_field(text: &str) -> Result<String, NotationError> {
    let field = field(text)?;
    let name = field.split(':').next().unwrap_or_default().to_ascii_lowercase();
    match ["range", "if-range", "accept-encoding"].contains(&name.as_str()) {
        true => Err(NotationError::new(text, "a field that fathom does not set itself")),
        false => Ok(field),
    }
}
