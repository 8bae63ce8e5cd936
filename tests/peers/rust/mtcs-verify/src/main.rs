//! A relying party made of the crate mtcs, which reads draft-ietf-plants-merkle-tree-certs-07.
//!
//!     mtcs-verify certificates CA NOW [LOG:START:END:HASH...] -- CERTIFICATE...
//!     mtcs-verify landmarks FILE NOW
//!     mtcs-verify properties FILE
//!     mtcs-verify consistency START END SIZE SUBTREE ROOT HASH...
//!
//! Files are DER, or as they are published; NOW is in seconds since 1970, hashes are in hexadecimal. One line is printed for each
//! certificate and landmark. The exit status is 1 where one is refused.

use mtcs::{CaTrust, TrustStore, TrustedSubtree, VerificationKind, verify_certificate};

fn read(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hexadecimal")).collect()
}

fn hash(text: &str) -> [u8; 32] {
    hex(text).try_into().expect("a hash of 32 bytes")
}

fn subtree(text: &str) -> TrustedSubtree {
    let parts: Vec<&str> = text.split(':').collect();
    TrustedSubtree {
        log_number: parts[0].parse().expect("a log number"),
        start: parts[1].parse().expect("a start"),
        end: parts[2].parse().expect("an end"),
        hash: hash(parts[3]),
    }
}

fn certificates(arguments: &[String]) -> bool {
    let mut ca = match CaTrust::from_ca_certificate(&read(&arguments[0])) {
        Ok(ca) => ca,
        Err(error) => {
            println!("refused CA: {error}");
            return false;
        }
    };
    let now = arguments[1].parse().expect("a time");
    let split = arguments.iter().position(|one| one == "--").expect("--");
    for one in &arguments[2..split] {
        ca.trust_subtree(subtree(one));
    }
    let mut store = TrustStore::new();
    store.add_ca(ca);
    let mut good = true;
    for path in &arguments[split + 1..] {
        match verify_certificate(&store, &read(path), now) {
            Ok(found) => {
                let kind = match found.kind {
                    VerificationKind::Standalone => "standalone",
                    VerificationKind::LandmarkRelative => "landmark-relative",
                };
                println!("{kind} {} {}", found.log_number, found.entry_index);
            }
            Err(error) => {
                println!("refused: {error}");
                good = false;
            }
        }
    }
    good
}

fn landmarks(arguments: &[String]) -> bool {
    let document = String::from_utf8(read(&arguments[0])).expect("UTF-8");
    match mtcs::parse_landmarks(&document, arguments[1].parse().expect("a time")) {
        Ok(found) => {
            for one in found {
                println!("{} {} {}", one.number, one.tree_size, one.expires_unix);
            }
            true
        }
        Err(error) => {
            println!("refused: {error}");
            false
        }
    }
}

fn properties(arguments: &[String]) -> bool {
    match mtcs::CertificatePropertyList::parse(&read(&arguments[0])) {
        Ok(found) => {
            let id = found.trust_anchor_id().map(ToString::to_string).unwrap_or_default();
            println!("{id} {}", found.requires_trust_anchor_negotiation());
            true
        }
        Err(error) => {
            println!("refused: {error}");
            false
        }
    }
}

fn consistency(arguments: &[String]) -> bool {
    let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
    let proof: Vec<u8> = arguments[5..].iter().flat_map(|one| hex(one)).collect();
    let subtree = mtcs::Subtree::new(number(0), number(1)).expect("a subtree");
    let good = mtcs::verify_consistency_proof(number(2), subtree, &proof, &hash(&arguments[3]), &hash(&arguments[4]));
    println!("{}", if good { "consistent" } else { "refused" });
    good
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let good = match arguments[0].as_str() {
        "certificates" => certificates(&arguments[1..]),
        "landmarks" => landmarks(&arguments[1..]),
        "properties" => properties(&arguments[1..]),
        "consistency" => consistency(&arguments[1..]),
        other => panic!("{other}"),
    };
    std::process::exit(i32::from(!good));
}
