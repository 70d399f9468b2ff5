//! The options of https, and what to do where it fails.

use std::path::{Path, PathBuf};

use clap::Args;
use fathom_fileio::read_text;
use fathom_http::{ExchangeError, Tls, TlsFault, Trust, TrustError, Url};
use fathom_metric::ProcedureError;

/// The roots of a system have 300 KiB.
const PEM_MAX: u64 = 16 << 20;

#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub struct Https {
    /// Trust the certificates in this file (PEM) instead of the roots of the system (https).
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Accept any certificate: whoever answers is the server (https).
    #[arg(long, conflicts_with = "cacert")]
    pub insecure: bool,
}

impl Https {
    fn trust(&self) -> Result<Trust, ProcedureError> {
        match &self.cacert {
            Some(path) => {
                let failed =
                    |error| ProcedureError::failed(format!("--cacert {}: {error}", path.display()));
                let text = read_text(path, PEM_MAX).map_err(failed)?;
                if text.contains("PRIVATE KEY-----") && !text.contains("BEGIN CERTIFICATE-----") {
                    let path = path.display();
                    let why = "has a private key and no certificate; name that of the certificate";
                    return Err(ProcedureError::failed(format!("--cacert {path}: the file {why}")));
                }
                Ok(Trust::Pem(text))
            }
            None if self.insecure => Ok(Trust::All),
            None => Ok(Trust::System),
        }
    }

    /// What encrypts the connections to a URL, if it is one of https.
    ///
    /// # Errors
    /// If options do not fit the URL, or there are no certificates to trust.
    pub fn tls_for(&self, url: &Url) -> Result<Option<Tls>, ProcedureError> {
        if !url.is_https {
            let option = match self {
                Self { cacert: None, insecure: false } => return Ok(None),
                Self { cacert: None, .. } => "--insecure",
                Self { cacert: Some(_), .. } => "--cacert",
            };
            let text = format!("{option}: the URL begins with http://, and not https://");
            return Err(ProcedureError::usage(text));
        }
        let tls = Tls::new(&url.host, &self.trust()?).map_err(|error| match error {
            TrustError::Name(_) => ProcedureError::usage(error),
            TrustError::NoRoots => {
                ProcedureError::failed(format!("{error}; name some by --cacert FILE"))
            }
            TrustError::NoCertificate => {
                let path = self.cacert.as_deref().unwrap_or(Path::new("")).display();
                ProcedureError::failed(format!("--cacert {path}: {error}"))
            }
        })?;
        Ok(Some(tls))
    }

    /// Whom the connections trust.
    pub fn words(&self) -> String {
        match &self.cacert {
            Some(path) => {
                let path: String =
                    path.to_string_lossy().chars().filter(|c| !c.is_control()).collect();
                format!("certificate verified by {path}")
            }
            None if self.insecure => "certificate not verified (--insecure)".to_owned(),
            None => "certificate verified by the roots of the system".to_owned(),
        }
    }
}

/// What to do about a fault of TLS; empty if nothing is known.
pub fn remedy(error: &ExchangeError) -> &'static str {
    let ExchangeError::Tls(error) = error else { return "" };
    match error.fault {
        TlsFault::UnknownIssuer => {
            ", or self-signed; name that of the issuer, or the self-signed one itself, by --cacert \
             FILE, or accept any by --insecure"
        }
        TlsFault::OtherName => "; use a name that it has, or accept any by --insecure",
        TlsFault::Expired | TlsFault::NotYetValid | TlsFault::Certificate => {
            "; --insecure accepts any"
        }
        TlsFault::NoTls => "; use http://",
        TlsFault::NoHttp1 => "; HTTP/2 is not supported: let the server offer HTTP/1.1 too",
        TlsFault::ClientCertificate => ", which is not supported",
        TlsFault::Closed | TlsFault::Version | TlsFault::Protocol => "",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn key_is_no_certificate() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let text = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        file.write_all(text.as_bytes()).expect("space");
        let https = Https { cacert: Some(file.path().to_owned()), insecure: false };
        let url = Url::parse("https://a/").expect("a URL");
        let error = https.tls_for(&url).expect_err("no certificate").to_string();
        assert!(
            error.ends_with("has a private key and no certificate; name that of the certificate")
        );
    }
}
