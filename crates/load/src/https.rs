//! The options of https, and what to do where it fails.

use std::path::{Path, PathBuf};

use clap::Args;
use fathom_fileio::read_bytes;
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
    /// Show this certificate (PEM) to a server that asks for one (https).
    #[arg(long, value_name = "FILE")]
    pub cert: Option<PathBuf>,
    /// The private key of --cert (PEM) [default: in the same file].
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}

impl Https {
    fn trust(&self) -> Result<Trust, ProcedureError> {
        match &self.cacert {
            Some(path) => {
                let text = read_pem("--cacert", path)?;
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
                Self { cacert: Some(_), .. } => "--cacert",
                Self { cert: Some(_), .. } => "--cert",
                Self { insecure: true, .. } => "--insecure",
                _ => return Ok(None),
            };
            let text = format!("{option}: the URL begins with http://, and not https://");
            return Err(ProcedureError::usage(text));
        }
        let tls = Tls::new(&url.host, &self.trust()?);
        let tls = match (&self.cert, tls) {
            (Some(cert), Ok(tls)) => {
                let chain = read_pem("--cert", cert)?;
                let key = self.key.as_deref().map(|key| read_pem("--key", key)).transpose()?;
                tls.with_own(&chain, key.as_ref().unwrap_or(&chain))
            }
            (_, tls) => tls,
        };
        let path = |path: &Option<PathBuf>| path.clone().unwrap_or_default().display().to_string();
        let tls = tls.map_err(|error| match error {
            TrustError::Name(_) => ProcedureError::usage(error),
            TrustError::NoRoots => {
                ProcedureError::failed(format!("{error}; name some by --cacert FILE"))
            }
            TrustError::NoCertificate => {
                ProcedureError::failed(format!("--cacert {}: {error}", path(&self.cacert)))
            }
            TrustError::NoOwnCertificate => {
                ProcedureError::failed(format!("--cert {}: {error}", path(&self.cert)))
            }
            TrustError::NoKey | TrustError::OtherKey => {
                let key = path(self.key.as_ref().map_or(&self.cert, |_| &self.key));
                ProcedureError::failed(format!("--key {key}: {error}"))
            }
        })?;
        Ok(Some(tls))
    }

    /// Whom the connections trust.
    pub fn words(&self) -> String {
        let trusted = self.trusted();
        let own = if self.cert.is_some() { "; own certificate shown (--cert)" } else { "" };
        trusted + own
    }

    fn trusted(&self) -> String {
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

fn read_pem(option: &str, path: &Path) -> Result<String, ProcedureError> {
    let shown = path.display();
    let failed = |text: String| ProcedureError::failed(format!("{option} {shown}: {text}"));
    let bytes = read_bytes(path, PEM_MAX).map_err(|error| failed(error.to_string()))?;
    // A sequence in ASN.1: its length is the rest of the file, in one byte for the key of an
    // elliptic curve, or behind a count of bytes.
    let is_der = match bytes.as_slice() {
        [0x30, 0x81..=0x83, ..] => true,
        [0x30, length, rest @ ..] => usize::from(*length) == rest.len(),
        _ => false,
    };
    let file = fathom_record::shell_word(&shown.to_string());
    // Its first field is its version, 3: no certificate and no key begins so.
    let head = bytes.iter().take(12).copied().collect::<Vec<u8>>();
    let is_bundle = head.first() == Some(&0x30) && head.windows(4).any(|it| it == [2, 1, 3, 0x30]);
    if is_bundle {
        let part = match option {
            "--key" => "-nocerts -nodes",
            "--cacert" => "-nokeys",
            _ => "-nodes",
        };
        let text = format!("is PKCS#12, expected PEM: openssl pkcs12 {part} -in {file} -out a.pem");
        return Err(failed(text));
    }
    if is_der {
        let tool = if option == "--key" { "pkey" } else { "x509" };
        let text = format!("is in DER, expected PEM: openssl {tool} -inform der -in {file}");
        return Err(failed(text));
    }
    String::from_utf8(bytes).map_err(|_| failed("no text, expected PEM".to_owned()))
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
        TlsFault::ClientCertificate => "; --cert FILE and --key FILE name one that it accepts",
        TlsFault::OldCertificate => {
            "; make one of version 3, as `openssl req -x509` does, whose name is in subjectAltName"
        }
        TlsFault::UnknownName => "; use a name of its certificate; an address is none",
        TlsFault::Closed | TlsFault::Version | TlsFault::Protocol => "",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn file_that_is_no_certificate_is_named() {
        let error = |bytes: &[u8]| {
            let mut file = tempfile::NamedTempFile::new().expect("a file");
            file.write_all(bytes).expect("space");
            let https = Https { cacert: Some(file.path().to_owned()), ..Https::default() };
            let url = Url::parse("https://a/").expect("a URL");
            https.tls_for(&url).expect_err("no certificate").to_string()
        };
        let key = error(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        assert!(
            key.ends_with("has a private key and no certificate; name that of the certificate")
        );
        for der in [&b"\x30\x82\x01"[..], b"\x30\x81\x01", b"\x30\x03abc"] {
            assert!(error(der).contains("is in DER, expected PEM: openssl x509"));
        }
        for bundle in [&b"\x30\x82\x09\x6f\x02\x01\x03\x30"[..], b"\x30\x80\x02\x01\x03\x30"] {
            let text = "is PKCS#12, expected PEM: openssl pkcs12 -nokeys -in ";
            assert!(error(bundle).contains(text), "{}", error(bundle));
        }
    }
}
