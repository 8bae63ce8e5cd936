import java.io.FileWriter;
import java.io.Writer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Security;
import java.time.Duration;
import java.util.Arrays;
import org.bouncycastle.jce.provider.BouncyCastleProvider;
import org.shredzone.acme4j.AccountBuilder;
import org.shredzone.acme4j.Authorization;
import org.shredzone.acme4j.Order;
import org.shredzone.acme4j.Session;
import org.shredzone.acme4j.Status;
import org.shredzone.acme4j.challenge.Http01Challenge;
import org.shredzone.acme4j.util.KeyPairUtils;

/**
 * A client made of acme4j: binds an account to an external one, and gets a certificate by http-01.
 *
 * <pre>java -jar acme4j-eab.jar DIRECTORY KID HMAC WEBROOT CHAIN NAME...</pre>
 *
 * HMAC is base64url, WEBROOT is the folder of challenge responses, the chain is written to CHAIN; the account's URL is the last line printed.
 */
public final class Main {
    private static final Duration PATIENCE = Duration.ofSeconds(60);

    public static void main(String[] arguments) throws Exception {
        Security.addProvider(new BouncyCastleProvider());
        var names = Arrays.copyOfRange(arguments, 5, arguments.length);
        var session = new Session(arguments[0]);
        var account = new AccountBuilder()
                .agreeToTermsOfService()
                .useKeyPair(KeyPairUtils.createECKeyPair("secp256r1"))
                .withKeyIdentifier(arguments[1], arguments[2])
                .create(session);
        Order order = account.newOrder().domains(names).create();
        for (Authorization authorization : order.getAuthorizations()) {
            var challenge = authorization.findChallenge(Http01Challenge.class).orElseThrow();
            Files.writeString(Path.of(arguments[3], challenge.getToken()), challenge.getAuthorization());
            challenge.trigger();
            expect(Status.VALID, challenge.waitForCompletion(PATIENCE));
        }
        expect(Status.READY, order.waitUntilReady(PATIENCE));
        order.execute(KeyPairUtils.createECKeyPair("secp256r1"));
        expect(Status.VALID, order.waitForCompletion(PATIENCE));
        try (Writer out = new FileWriter(arguments[4])) {
            order.getCertificate().writeCertificate(out);
        }
        System.out.println(account.getLocation());
    }

    private static void expect(Status expected, Status found) {
        if (found != expected) {
            throw new IllegalStateException("expected " + expected + ", found " + found);
        }
    }
}
