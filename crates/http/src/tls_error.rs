//! Why a server cannot be spoken to over TLS, in words.

use std::fmt;
use std::time::{Duration, SystemTime};

use rustls::pki_types::UnixTime;
use rustls::{
    AlertDescription, CertificateError, Error, InvalidMessage, OtherError, PeerIncompatible,
};

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsFault {
    UnknownIssuer,
    OtherName,
    Expired,
    NotYetValid,
    Certificate,
    /// The first bytes are no TLS.
    NoTls,
    /// In the handshake.
    Closed,
    /// Only another protocol, such as HTTP/2.
    NoHttp1,
    /// Of the client: none was sent that the server accepts.
    ClientCertificate,
    /// Of X.509 version 1.
    OldCertificate,
    /// The server has none for the name that it is asked for.
    UnknownName,
    /// No version or cipher in common.
    Version,
    Protocol,
}

impl fmt::Display for TlsFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnknownIssuer => "TLS: certificate of an unknown issuer",
            Self::OtherName => "TLS: certificate of another name",
            Self::Expired => "TLS: certificate expired",
            Self::NotYetValid => "TLS: certificate not valid yet",
            Self::Certificate => "TLS: invalid certificate",
            Self::NoTls => "TLS: the server speaks no TLS on this port",
            Self::Closed => "TLS: connection closed in the handshake",
            Self::NoHttp1 => "TLS: the server does not offer HTTP/1.1 (ALPN), perhaps HTTP/2 only",
            Self::ClientCertificate => "TLS: the server requires a client certificate",
            Self::OldCertificate => "TLS: certificate of X.509 version 1, from before 1996",
            Self::UnknownName => "TLS: the server has no certificate for this name (SNI)",
            Self::Version => "TLS: no version or cipher in common (TLS 1.2 with ECDHE, or 1.3)",
            Self::Protocol => "TLS: protocol error",
        })
    }
}

/// A fault with what the server sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}{detail}")]
pub struct TlsError {
    pub fault: TlsFault,
    detail: String,
}

impl TlsError {
    pub(crate) fn new(fault: TlsFault) -> Self {
        Self { fault, detail: String::new() }
    }
}

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        use AlertDescription as Alert;
        use TlsFault as F;
        let (fault, detail) = match &error {
            Error::InvalidCertificate(error) => of_certificate(error),
            Error::InvalidMessage(InvalidMessage::InvalidContentType) => (F::NoTls, String::new()),
            Error::NoApplicationProtocol | Error::AlertReceived(Alert::NoApplicationProtocol) => {
                (F::NoHttp1, String::new())
            }
            Error::AlertReceived(Alert::CertificateRequired) => {
                (F::ClientCertificate, String::new())
            }
            // Of a certificate: that of the client.
            Error::AlertReceived(
                alert @ (Alert::BadCertificate
                | Alert::UnsupportedCertificate
                | Alert::CertificateRevoked
                | Alert::CertificateExpired
                | Alert::CertificateUnknown
                | Alert::UnknownCA
                | Alert::AccessDenied),
            ) => (F::ClientCertificate, format!(" that it trusts: alert {}", words(alert))),
            Error::AlertReceived(Alert::UnrecognisedName) => (F::UnknownName, String::new()),
            Error::AlertReceived(
                Alert::ProtocolVersion | Alert::InsufficientSecurity | Alert::HandshakeFailure,
            )
            | Error::PeerIncompatible(
                PeerIncompatible::ServerDoesNotSupportTls12Or13
                | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
            ) => (F::Version, String::new()),
            Error::AlertReceived(alert) => (F::Protocol, format!(": alert {}", words(alert))),
            Error::PeerIncompatible(what) => (F::Protocol, format!(": {}", words(what))),
            Error::PeerMisbehaved(what) => (F::Protocol, format!(": {}", words(what))),
            Error::InvalidMessage(what) => (F::Protocol, format!(": {}", words(what))),
            other => (F::Protocol, format!(": {other}")),
        };
        // A server may send any name.
        let detail = detail.chars().filter(|c| !c.is_control()).take(300).collect();
        Self { fault, detail }
    }
}

fn of_certificate(error: &CertificateError) -> (TlsFault, String) {
    use CertificateError as C;
    use TlsFault as F;
    match error {
        C::UnknownIssuer => (F::UnknownIssuer, String::new()),
        C::BadSignature => {
            (F::UnknownIssuer, ": the trusted one of that name did not sign it".to_owned())
        }
        C::NotValidForName => (F::OtherName, String::new()),
        C::NotValidForNameContext { expected, presented } => {
            // Such as `DnsName("a.b")`.
            let shown = |name: &String| {
                let inner = name.split_once('(').map_or(&name[..], |(_, rest)| rest);
                inner.trim_matches([')', '"']).to_owned()
            };
            let names: Vec<String> = presented.iter().take(5).map(shown).collect();
            let names =
                if names.is_empty() { "without names".to_owned() } else { names.join(", ") };
            (F::OtherName, format!(": {names}, expected {}", expected.to_str()))
        }
        C::ExpiredContext { not_after, .. } => (F::Expired, format!(" on {}", date(*not_after))),
        C::Expired => (F::Expired, String::new()),
        C::NotValidYetContext { not_before, .. } => {
            (F::NotYetValid, format!(", from {}", date(*not_before)))
        }
        C::NotValidYet => (F::NotYetValid, String::new()),
        C::Other(other) if is_of_ca(other) => {
            (F::UnknownIssuer, ": it is that of a CA itself".to_owned())
        }
        C::Other(other) => match other.0.downcast_ref::<webpki::Error>() {
            Some(webpki::Error::UnsupportedCertVersion) => (F::OldCertificate, String::new()),
            Some(error) => (F::Certificate, format!(": {}", words(error))),
            None => (F::Certificate, format!(": {other}")),
        },
        C::InvalidPurposeContext { .. } => (F::Certificate, format!(": {error}")),
        other => (F::Certificate, format!(": {}", words(other))),
    }
}

/// The name of a variant as words: `UnknownCA` is "unknown CA".
fn words(variant: &dyn fmt::Debug) -> String {
    let name = format!("{variant:?}");
    let letters: Vec<char> = name.chars().collect();
    let is_small = |at: usize| letters.get(at).is_some_and(|letter| letter.is_ascii_lowercase());
    let mut text = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let is_first = letter.is_ascii_uppercase();
        text.extend((is_first && at > 0 && is_small(at - 1)).then_some(' '));
        text.push(if is_first && is_small(at + 1) { letter.to_ascii_lowercase() } else { *letter });
    }
    text
}

/// Whether all that is wrong is that the certificate of a CA is used as that of a server.
pub(crate) fn is_of_ca(error: &OtherError) -> bool {
    error.0.downcast_ref() == Some(&webpki::Error::CaUsedAsEndEntity)
}

fn date(time: UnixTime) -> String {
    // The year 9999 is the last one that a date can have.
    let since = Duration::from_secs(time.as_secs().min(253_402_300_799));
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn faults_have_words_and_no_names_of_code() {
        let of = |error: webpki::Error| {
            let other = CertificateError::Other(OtherError(Arc::new(error)));
            TlsError::from(Error::InvalidCertificate(other)).to_string()
        };
        assert!(of(webpki::Error::UnsupportedCertVersion).contains("X.509 version 1"));
        assert_eq!(of(webpki::Error::BadDer), "TLS: invalid certificate: bad der");
        assert_eq!(words(&AlertDescription::UnknownCA), "unknown CA");
    }
}
