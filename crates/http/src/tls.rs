//! TLS as a client: whom it trusts, and to whom it speaks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, InconsistentKeys, RootCertStore,
    SignatureScheme,
};

use crate::tls_error::is_of_ca;

/// Whose certificates are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Those of the system's roots.
    System,
    /// Those of these certificates (PEM), and these themselves.
    Pem(String),
    /// All: whoever answers is the server.
    All,
}

#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    #[error("no certificate in PEM")]
    NoCertificate,
    #[error("this system has no root certificates (package ca-certificates)")]
    NoRoots,
    #[error("`{0}` can be no name of a certificate")]
    Name(String),
    #[error("no certificate in PEM")]
    NoOwnCertificate,
    #[error("no private key in PEM, or one with a passphrase")]
    NoKey,
    #[error("the key is not that of the certificate")]
    OtherKey,
}

/// What every connection to a server shares.
#[derive(Clone, Debug)]
pub struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
    pub(crate) own: Arc<ClientIdentity>,
}

impl Tls {
    /// `host`: the name or address that the certificate must have. No session is resumed: each
    /// connection costs both ends the same.
    ///
    /// # Errors
    /// If there are no certificates to trust.
    pub fn new(host: &str, trust: &Trust) -> Result<Self, TrustError> {
        // The zone of an address is of this host.
        let name = host.split('%').next().unwrap_or_default();
        let name = ServerName::try_from(name.to_owned());
        let name = name.map_err(|_| TrustError::Name(host.to_owned()))?;
        let own = Arc::<ClientIdentity>::default();
        let mut config = client_config(trust)?;
        config.client_auth_cert_resolver = Arc::clone(&own) as _;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name, own })
    }

    /// With a certificate for servers that ask for one, and its key, both in PEM.
    ///
    /// # Errors
    /// If they are not a pair.
    pub fn with_own(self, chain: &str, key: &str) -> Result<Self, TrustError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        let chain = chain.ok_or(TrustError::NoOwnCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| TrustError::NoKey)?;
        let provider = ring::default_provider();
        let signer = provider.key_provider.load_private_key(key).map_err(|_| TrustError::NoKey)?;
        let pair = CertifiedKey::new(chain, signer);
        // A certificate of version 1 cannot be read here: its server judges it.
        if let Err(rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) =
            pair.keys_match()
        {
            return Err(TrustError::OtherKey);
        }
        let own = ClientIdentity { pair: Some(Arc::new(pair)), ..ClientIdentity::default() };
        let (own, mut config) = (Arc::new(own), (*self.config).clone());
        config.client_auth_cert_resolver = Arc::clone(&own) as _;
        Ok(Self { config: Arc::new(config), own, ..self })
    }
}

/// The answer to a server that asks for a certificate, and whether one did: the alert of TLS 1.2
/// to a client without one is that to a client without a common cipher.
#[derive(Debug, Default)]
pub(crate) struct ClientIdentity {
    pair: Option<Arc<CertifiedKey>>,
    pub(crate) was_asked: AtomicBool,
}

impl ResolvesClientCert for ClientIdentity {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Ordering::Relaxed);
        self.pair.clone().filter(|pair| pair.key.choose_scheme(schemes).is_some())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// TLS of any protocol.
///
/// # Errors
/// If there are no certificates to trust.
pub fn client_config(trust: &Trust) -> Result<ClientConfig, TrustError> {
    let provider = Arc::new(ring::default_provider());
    let verifier = Arc::new(Verifier::new(trust, &provider)?);
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers of TLS 1.2 and 1.3")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

/// The usual verification. As in OpenSSL, a certificate that is named is accepted as that of the
/// server itself, although it is that of a CA: `openssl req -x509` makes such.
#[derive(Debug)]
struct Verifier {
    /// None accepts all.
    usual: Option<Arc<WebPkiServerVerifier>>,
    named: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(trust: &Trust, provider: &Arc<CryptoProvider>) -> Result<Self, TrustError> {
        let provider = Arc::clone(provider);
        let (named, roots) = match trust {
            Trust::All => return Ok(Self { usual: None, named: Vec::new(), provider }),
            Trust::System => (Vec::new(), rustls_native_certs::load_native_certs().certs),
            Trust::Pem(text) => {
                let named: Result<Vec<_>, _> =
                    CertificateDer::pem_slice_iter(text.as_bytes()).collect();
                let named = named.map_err(|_| TrustError::NoCertificate)?;
                (named.clone(), named)
            }
        };
        let mut store = RootCertStore::empty();
        let (added, _) = store.add_parsable_certificates(roots);
        if added == 0 {
            return Err(match trust {
                Trust::Pem(_) => TrustError::NoCertificate,
                _ => TrustError::NoRoots,
            });
        }
        let usual =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider));
        let usual = usual.build().expect("it has roots");
        Ok(Self { usual: Some(usual), named, provider })
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        own: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(usual) = &self.usual else { return Ok(ServerCertVerified::assertion()) };
        match usual.verify_server_cert(own, intermediates, name, ocsp, now) {
            // Its dates were right, which are checked before.
            Err(Error::InvalidCertificate(CertificateError::Other(error)))
                if self.named.contains(own) && is_of_ca(&error) =>
            {
                verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, own, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        own: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, own, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
