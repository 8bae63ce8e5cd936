import com.nimbusds.jose.JOSEObjectType;
import com.nimbusds.jose.JWSAlgorithm;
import com.nimbusds.jose.JWSHeader;
import com.nimbusds.jose.crypto.ECDSASigner;
import com.nimbusds.jose.crypto.ECDSAVerifier;
import com.nimbusds.jose.jwk.Curve;
import com.nimbusds.jose.jwk.ECKey;
import com.nimbusds.jose.jwk.JWKSet;
import com.nimbusds.jose.jwk.gen.ECKeyGenerator;
import com.nimbusds.jose.util.JSONObjectUtils;
import com.nimbusds.jwt.JWTClaimsSet;
import com.nimbusds.jwt.SignedJWT;
import com.nimbusds.oauth2.sdk.AuthorizationCodeGrant;
import com.nimbusds.oauth2.sdk.AuthorizationGrant;
import com.nimbusds.oauth2.sdk.AuthorizationRequest;
import com.nimbusds.oauth2.sdk.AuthorizationResponse;
import com.nimbusds.oauth2.sdk.PushedAuthorizationRequest;
import com.nimbusds.oauth2.sdk.PushedAuthorizationResponse;
import com.nimbusds.oauth2.sdk.ResponseMode;
import com.nimbusds.oauth2.sdk.ResponseType;
import com.nimbusds.oauth2.sdk.Scope;
import com.nimbusds.oauth2.sdk.TokenIntrospectionRequest;
import com.nimbusds.oauth2.sdk.TokenRequest;
import com.nimbusds.oauth2.sdk.auth.ClientAuthentication;
import com.nimbusds.oauth2.sdk.auth.PrivateKeyJWT;
import com.nimbusds.oauth2.sdk.ciba.CIBAGrant;
import com.nimbusds.oauth2.sdk.ciba.CIBARequest;
import com.nimbusds.oauth2.sdk.ciba.CIBAResponse;
import com.nimbusds.oauth2.sdk.device.DeviceAuthorizationRequest;
import com.nimbusds.oauth2.sdk.device.DeviceAuthorizationResponse;
import com.nimbusds.oauth2.sdk.device.DeviceCodeGrant;
import com.nimbusds.oauth2.sdk.dpop.DefaultDPoPProofFactory;
import com.nimbusds.oauth2.sdk.id.ClientID;
import com.nimbusds.oauth2.sdk.id.Issuer;
import com.nimbusds.oauth2.sdk.id.State;
import com.nimbusds.oauth2.sdk.jarm.JARMValidator;
import com.nimbusds.oauth2.sdk.pkce.CodeChallengeMethod;
import com.nimbusds.oauth2.sdk.pkce.CodeVerifier;
import com.nimbusds.oauth2.sdk.rar.AuthorizationDetail;
import com.nimbusds.oauth2.sdk.token.AccessToken;
import com.nimbusds.oauth2.sdk.token.TokenTypeURI;
import com.nimbusds.oauth2.sdk.tokenexchange.TokenExchangeGrant;
import com.nimbusds.openid.connect.sdk.OIDCTokenResponse;
import com.nimbusds.openid.connect.sdk.OIDCTokenResponseParser;
import com.nimbusds.openid.connect.sdk.UserInfoRequest;
import com.nimbusds.openid.connect.sdk.UserInfoResponse;
import com.nimbusds.openid.connect.sdk.op.OIDCProviderMetadata;
import com.nimbusds.openid.connect.sdk.validators.IDTokenValidator;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.URI;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The OAuth 2.0 SDK of Nimbus as a client with a key: a signed request sent and pushed, a signed answer, a token bound to a second key,
 * authorization details, a signed answer about a token, and then an exchange, a device and a person elsewhere.
 *
 * The settings are the first line of the input; a URL for the person goes out as a line, where it led comes back as one.
 */
public final class Main {
    private static final BufferedReader LINES = new BufferedReader(new InputStreamReader(System.in));

    private final Map<String, Object> settings;
    private final OIDCProviderMetadata provider;
    private final ClientID client;
    private final ECKey key;
    private final JWKSet keys;
    private final DefaultDPoPProofFactory prover;

    private Main(Map<String, Object> settings) throws Exception {
        this.settings = settings;
        this.provider = OIDCProviderMetadata.resolve(new Issuer(text("issuer")));
        this.client = new ClientID(text("client_id"));
        this.key = ECKey.parse(JSONObjectUtils.getJSONObject(settings, "key"));
        this.keys = JWKSet.load(provider.getJWKSetURI().toURL());
        this.prover = new DefaultDPoPProofFactory(new ECKeyGenerator(Curve.P_256).generate(), JWSAlgorithm.ES256);
    }

    public static void main(String[] arguments) throws Exception {
        var main = new Main(JSONObjectUtils.parse(LINES.readLine()));
        var found = new LinkedHashMap<String, Object>();
        var tokens = main.code(false, found);
        main.code(true, found);
        main.exchange(tokens.getOIDCTokens().getAccessToken(), found);
        main.device(found);
        main.elsewhere(found);
        say(Map.of("done", found));
    }

    /** A person signs in: by a request object in the URL, or by one that is pushed. */
    private OIDCTokenResponse code(boolean pushed, Map<String, Object> found) throws Exception {
        var verifier = new CodeVerifier();
        var state = new State();
        var plain = new AuthorizationRequest.Builder(ResponseType.CODE, client)
                .redirectionURI(URI.create(text("redirect_uri")))
                .scope(Scope.parse("openid profile"))
                .state(state)
                .responseMode(ResponseMode.QUERY_JWT)
                .codeChallenge(verifier, CodeChallengeMethod.S256)
                .authorizationDetails(AuthorizationDetail.parseList(text("resource")))
                .build();
        var signed = new AuthorizationRequest.Builder(sign(plain.toJWTClaimsSet()), client)
                .endpointURI(provider.getAuthorizationEndpointURI())
                .build();
        if (pushed) {
            var request = new PushedAuthorizationRequest(provider.getPushedAuthorizationRequestEndpointURI(), proof(), signed);
            var answer = PushedAuthorizationResponse.parse(request.toHTTPRequest().send()).toSuccessResponse();
            signed = new AuthorizationRequest.Builder(answer.getRequestURI(), client)
                    .endpointURI(provider.getAuthorizationEndpointURI())
                    .build();
        }
        var validator = new JARMValidator(provider.getIssuer(), client, JWSAlgorithm.ES256, keys);
        var answer = AuthorizationResponse.parse(URI.create(browse(signed.toURI())), validator).toSuccessResponse();
        if (!answer.getState().equals(state)) {
            throw new IllegalStateException("another state");
        }
        var code = answer.getAuthorizationCode();
        var tokens = tokens(new AuthorizationCodeGrant(code, URI.create(text("redirect_uri")), verifier), true);
        found.put(pushed ? "pushed" : "plain", told(tokens));
        return tokens;
    }

    private void exchange(AccessToken token, Map<String, Object> found) throws Exception {
        var exchanged = tokens(new TokenExchangeGrant(token, TokenTypeURI.ACCESS_TOKEN), true).getTokens().getAccessToken();
        found.put("exchanged", Map.of("kind", exchanged.getIssuedTokenType().toString(), "scope", exchanged.getScope().toString()));
    }

    private void device(Map<String, Object> found) throws Exception {
        var request = new DeviceAuthorizationRequest(
                provider.getDeviceAuthorizationEndpointURI(), proof(), Scope.parse("openid profile"), null);
        var answer = DeviceAuthorizationResponse.parse(request.toHTTPRequest().send());
        if (!answer.indicatesSuccess()) {
            throw new IllegalStateException(answer.toErrorResponse().getErrorObject().toJSONObject().toString());
        }
        var asked = answer.toSuccessResponse();
        browse(asked.getVerificationURIComplete());
        found.put("device", told(tokens(new DeviceCodeGrant(asked.getDeviceCode()), false)));
    }

    private void elsewhere(Map<String, Object> found) throws Exception {
        var request = new CIBARequest.Builder(proof(), Scope.parse("openid profile"))
                .endpointURI(provider.getBackChannelAuthenticationEndpoint())
                .loginHint("ada")
                .bindingMessage("W4SCT")
                .build();
        var asked = CIBAResponse.parse(request.toHTTPRequest().send()).toRequestAcknowledgement();
        browse(URI.create(text("issuer") + "/ciba"));
        found.put("elsewhere", told(tokens(new CIBAGrant(asked.getAuthRequestID()), false)));
    }

    /** What the tokens say and open. */
    private Map<String, Object> told(OIDCTokenResponse answer) throws Exception {
        var tokens = answer.getOIDCTokens();
        var token = tokens.getAccessToken();
        var identity = new IDTokenValidator(provider.getIssuer(), client, JWSAlgorithm.ES256, keys).validate(tokens.getIDToken(), null);
        var userinfo = new UserInfoRequest(provider.getUserInfoEndpointURI(), token).toHTTPRequest();
        if (token.getType().getValue().equalsIgnoreCase("DPoP")) {
            userinfo.setDPoP(prover.createDPoPJWT("GET", provider.getUserInfoEndpointURI(), token));
        }
        var person = UserInfoResponse.parse(userinfo.send()).toSuccessResponse().getUserInfo();
        var introspection = new TokenIntrospectionRequest(provider.getIntrospectionEndpointURI(), proof(), token).toHTTPRequest();
        introspection.setAccept("application/token-introspection+jwt");
        var about = SignedJWT.parse(introspection.send().getBody());
        var of = (ECKey) keys.getKeyByKeyId(about.getHeader().getKeyID());
        if (!about.verify(new ECDSAVerifier(of))) {
            throw new IllegalStateException("the answer about the token has another signature");
        }
        var told = new LinkedHashMap<String, Object>();
        told.put("type", token.getType().getValue());
        told.put("same", person.getSubject().getValue().equals(identity.getSubject().getValue()));
        told.put("username", person.getStringClaim("preferred_username"));
        told.put("introspected", about.getJWTClaimsSet().getJSONObjectClaim("token_introspection"));
        told.put("jkt", prover.getPublicJWK().computeThumbprint().toString());
        var details = token.getAuthorizationDetails();
        told.put("details", details == null ? null : details.stream().map(one -> (Object) one.toJSONObject()).toList());
        return told;
    }

    private OIDCTokenResponse tokens(AuthorizationGrant grant, boolean bound) throws Exception {
        var request = new TokenRequest(provider.getTokenEndpointURI(), proof(), grant, null).toHTTPRequest();
        if (bound) {
            request.setDPoP(prover.createDPoPJWT("POST", provider.getTokenEndpointURI()));
        }
        var response = request.send();
        var answer = OIDCTokenResponseParser.parse(response);
        if (!answer.indicatesSuccess()) {
            throw new IllegalStateException(answer.toErrorResponse().getErrorObject().toJSONObject().toString());
        }
        return OIDCTokenResponse.parse(response);
    }

    private ClientAuthentication proof() throws Exception {
        return new PrivateKeyJWT(client, URI.create(text("issuer")), JWSAlgorithm.ES256, key.toECPrivateKey(), key.getKeyID(), null);
    }

    private SignedJWT sign(JWTClaimsSet asked) throws Exception {
        var now = new Date();
        var claims = new JWTClaimsSet.Builder(asked)
                .issuer(client.getValue())
                .audience(text("issuer"))
                .notBeforeTime(now)
                .expirationTime(new Date(now.getTime() + 60_000))
                .build();
        var header = new JWSHeader.Builder(JWSAlgorithm.ES256).keyID(key.getKeyID()).type(new JOSEObjectType("oauth-authz-req+jwt")).build();
        var signed = new SignedJWT(header, claims);
        signed.sign(new ECDSASigner(key));
        return signed;
    }

    private String text(String name) {
        return (String) settings.get(name);
    }

    private static void say(Map<String, Object> message) {
        System.out.println(JSONObjectUtils.toJSONString(message));
    }

    private static String browse(URI url) throws Exception {
        say(Map.of("open", url.toString()));
        return (String) JSONObjectUtils.parse("{\"url\":" + LINES.readLine() + "}").get("url");
    }
}
