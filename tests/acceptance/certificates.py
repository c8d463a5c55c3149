"""Certificates with an authority behind them: for a server, and for clients that show their own."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates, and has one itself: signed by `parent`, or by itself."""

    def __init__(self, name: str, parent: "Authority | None" = None) -> None:
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.certificate = _signed(self.name, self.key, parent or self, is_authority=True)
        self.pem = self.certificate.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, name: str) -> tuple[str, str]:
        """A certificate for a host or a client, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = _signed(subject, key, self, is_authority=False)
        return certificate.public_bytes(serialization.Encoding.PEM).decode(), pem_of(key)


def _signed(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, issuer: Authority, *, is_authority: bool
) -> x509.Certificate:
    now = datetime.now(UTC)
    names = [x509.DNSName("target.example"), x509.DNSName("localhost")]
    identifier = x509.SubjectKeyIdentifier.from_public_key(issuer.key.public_key())
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False
        )
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return builder.sign(issuer.key, hashes.SHA256())


def pem_of(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> str:
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how).decode()


class World:
    """Who trusts whom: one root, an authority between, a server, and two clients."""

    def __init__(self, folder: Path) -> None:
        self.root = Authority("root")
        between = Authority("between", self.root)
        self.root_file = folder / "root.pem"
        self.root_file.write_text(self.root.pem)
        self.server_file = folder / "server.pem"
        self.server_file.write_text("".join(self.root.issue("target.example")))
        certificate, key = self.root.issue("anna")
        self.anna = certificate + key
        bert, self.bert_key = self.root.issue("bert")
        self.bert = bert + self.bert_key
        self.anna_certificate, self.anna_key = certificate, key
        far, far_key = between.issue("far")
        self.chained = far_key + far + between.pem
        self.stranger = "".join(Authority("elsewhere").issue("stranger"))

    def server_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(self.root_file))
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(self.server_file)
        return context

    def trust(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.root_file))
