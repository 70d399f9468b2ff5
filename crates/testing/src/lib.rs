//! Certificates and servers of tests. Only dev-dependencies name this crate, so that it is in no
//! program.
#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "a test ends by a panic")]

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, SupportedProtocolVersion};

/// A certificate of a server with its key, and what a client trusts for it.
pub struct Certificate {
    pub issuer_pem: String,
    pub key_pem: String,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// The parameters of a certificate of these names.
pub fn named(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    CertificateParams::new(names).expect("names of a certificate")
}

impl Certificate {
    /// A certificate of these names, which is its own issuer.
    pub fn of_names(names: &[&str]) -> Self {
        Self::self_signed(&named(names))
    }

    pub fn self_signed(params: &CertificateParams) -> Self {
        let key = KeyPair::generate().expect("a key");
        let own = params.self_signed(&key).expect("a certificate");
        Self::new(own.pem(), &own, &key)
    }

    /// A certificate that a CA of its own issued.
    pub fn issued(params: &CertificateParams) -> Self {
        let [ca_key, key] = [(); 2].map(|()| KeyPair::generate().expect("a key"));
        let mut ca_params = CertificateParams::default();
        ca_params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = ca_params.self_signed(&ca_key).expect("a CA");
        let issuer = Issuer::new(ca_params, ca_key);
        Self::new(ca.pem(), &params.signed_by(&key, &issuer).expect("a certificate"), &key)
    }

    fn new(issuer_pem: String, own: &rcgen::Certificate, key: &KeyPair) -> Self {
        let der = PrivateKeyDer::try_from(key.serialize_der()).expect("a key");
        Self { issuer_pem, key_pem: key.serialize_pem(), chain: vec![own.der().clone()], key: der }
    }

    /// What a server with this certificate speaks.
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::new(self.server_of(rustls::ALL_VERSIONS))
    }

    pub fn server_of(&self, versions: &[&'static SupportedProtocolVersion]) -> ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider).with_protocol_versions(versions);
        let config = config.expect("versions").with_no_client_auth();
        config.with_single_cert(self.chain.clone(), self.key.clone_key()).expect("a pair")
    }
}

impl Certificate {
    /// What a server speaks that wants this certificate of each client.
    pub fn server_wanting(&self, version: &'static SupportedProtocolVersion) -> ServerConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.chain[0].clone()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider));
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_protocol_versions(&[version]).expect("a version");
        let config = config.with_client_cert_verifier(verifier.build().expect("a root"));
        config.with_single_cert(self.chain.clone(), self.key.clone_key()).expect("a pair")
    }
}

/// Serves each connection to the returned address in a thread of its own, until the process ends.
pub fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let (address, serve) = (listener.local_addr().expect("an address"), Arc::new(serve));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// The head of an HTTP message, and no byte of what follows it. `None` if the connection ends.
pub fn read_head(stream: &mut impl Read) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    String::from_utf8(head).ok()
}
