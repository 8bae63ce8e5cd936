import java.io.FileWriter;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Security;
import java.time.Duration;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.shredzone.acme4j.AccountBuilder;
import org.shredzone.acme4j.Authorization;
import org.shredzone.acme4j.Order;
import org.shredzone.acme4j.RevocationReason;
import org.shredzone.acme4j.Session;
import org.shredzone.acme4j.Status;
import org.shredzone.acme4j.challenge.Http01Challenge;
import org.shredzone.acme4j.exception.AcmeServerException;
import org.shredzone.acme4j.util.KeyPairUtils;

/**
 * A client made of acme4j: puts its account under another key, gets a certificate by http-01 and revokes it.
 *
 * <pre>java -jar acme4j-key-change.jar DIRECTORY WEBROOT CHAIN NAME</pre>
 *
 * WEBROOT is the folder of challenge responses, the chain is written to CHAIN.
 */
public final class Main {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        Security.addProvider(new BouncyCastleProvider());
        var session = new Session(arguments[0]);
        var first = KeyPairUtils.createECKeyPair("secp256r1");
        var second = KeyPairUtils.createECKeyPair("secp384r1");
        var account = new AccountBuilder().agreeToTermsOfService().useKeyPair(first).create(session);
        account.changeKey(second);
        try {
            new AccountBuilder().onlyExisting().useKeyPair(first).create(session);
            throw new IllegalStateException("the first key has an account still");
        } catch (AcmeServerException expected) {
            // accountDoesNotExist
        }
        var found = new AccountBuilder().onlyExisting().useKeyPair(second).createLogin(session);
        if (!found.getAccount().getLocation().equals(account.getLocation())) {
            throw new IllegalStateException("the second key has another account");
        }

        Order order = found.getAccount().newOrder().domains(arguments[3]).create();
        for (Authorization authorization : order.getAuthorizations()) {
            var challenge = authorization.findChallenge(Http01Challenge.class).orElseThrow();
            Files.writeString(Path.of(arguments[1], challenge.getToken()), challenge.getAuthorization());
            challenge.trigger();
            expect(Status.VALID, challenge.waitForCompletion(PATIENCE));
        }
        expect(Status.READY, order.waitUntilReady(PATIENCE));
        order.execute(KeyPairUtils.createECKeyPair("secp256r1"));
        expect(Status.VALID, order.waitForCompletion(PATIENCE));
        var certificate = order.getCertificate();
        try (Writer out = new FileWriter(arguments[2])) {
            certificate.writeCertificate(out);
        }
        certificate.revoke(RevocationReason.SUPERSEDED);
    }

    private static void expect(Status expected, Status found) {
        if (found != expected) {
            throw new IllegalStateException("expected " + expected + ", found " + found);
        }
    }
}
