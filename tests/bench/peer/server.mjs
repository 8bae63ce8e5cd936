// oidc-provider with an adapter in memory, and the clients and token formats of the other side. Arguments: port, the key set of the client
// "keyed". Prints "ready". GET /begin-families?count=n gives refresh tokens of new grants, one in a line: what a person's sign-in would have
// left; with kind=AccessToken it gives access tokens.
import { generateKeyPairSync } from 'node:crypto';
import Provider, { errors } from 'oidc-provider';

const port = Number(process.argv[2]);
const keySet = JSON.parse(process.argv[3]);
const exchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
const issuer = `http://localhost:${port}`;
const api = 'urn:bench:api';

const rows = new Map();
const members = new Map();

class InMemory {
  constructor(model) {
    this.model = model;
  }

  key(id) {
    return `${this.model}:${id}`;
  }

  async upsert(id, payload) {
    const key = this.key(id);
    rows.set(key, payload);
    if (payload.grantId && this.model !== 'Grant') {
      const keys = members.get(payload.grantId) ?? [];
      keys.push(key);
      members.set(payload.grantId, keys);
    }
  }

  async find(id) {
    return rows.get(this.key(id));
  }

  async consume(id) {
    rows.get(this.key(id)).consumed = Math.floor(Date.now() / 1000);
  }

  async destroy(id) {
    rows.delete(this.key(id));
  }

  async revokeByGrantId(grantId) {
    for (const key of members.get(grantId) ?? []) rows.delete(key);
    members.delete(grantId);
  }
}

function key(alg, type, options) {
  return { ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }), alg, use: 'sig', kid: alg };
}

const formats = { opaque: undefined, ES256: { sign: { alg: 'ES256' } }, RS256: { sign: { alg: 'RS256' } } };
const formatOf = (asking) => (asking.clientId === 'keyed' ? formats.ES256 : formats[asking.clientId]);
const client = (name) => ({
  client_id: name,
  client_secret: 'a-secret-of-forty-three-characters-01234567',
  redirect_uris: ['https://rp.example/callback'],
  grant_types: ['authorization_code', 'refresh_token', 'client_credentials', 'urn:ietf:params:oauth:grant-type:device_code', exchange],
  token_endpoint_auth_method: 'client_secret_basic',
  id_token_signed_response_alg: 'ES256',
});

const provider = new Provider(issuer, {
  adapter: InMemory,
  clients: [
    ...Object.keys(formats).map(client),
    { ...client('keyed'), client_secret: undefined, token_endpoint_auth_method: 'private_key_jwt', jwks: keySet },
    { ...client('signed'), introspection_signed_response_alg: 'ES256' },
  ],
  jwks: { keys: [key('ES256', 'ec', { namedCurve: 'P-256' }), key('RS256', 'rsa', { modulusLength: 2048 })] },
  cookies: { keys: ['for the bench alone'] },
  scopes: ['openid', 'offline_access', 'profile', 'email', 'groups'],
  findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
  rotateRefreshToken: true,
  ttl: { AccessToken: 900, ClientCredentials: 900, IdToken: 900, RefreshToken: 1209600, Grant: 7776000, Session: 28800, Interaction: 600 },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    introspection: { enabled: true },
    jwtIntrospection: { enabled: true },
    dPoP: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => api,
      useGrantedResource: () => true,
      getResourceServerInfo: (_, __, asking) => ({
        scope: 'profile email',
        audience: api,
        accessTokenTTL: 900,
        accessTokenFormat: formatOf(asking) ? 'jwt' : 'opaque',
        jwt: formatOf(asking),
      }),
    },
  },
});

// What RFC 8693 asks at least: the subject token lives, and the new token holds no more than it.
async function exchanging(ctx) {
  const { client: asking, params } = ctx.oidc;
  const subject = await provider.AccessToken.find(params.subject_token);
  if (!subject || subject.isExpired) throw new errors.InvalidRequest('subject_token');
  const token = new provider.AccessToken({
    accountId: subject.accountId,
    client: asking,
    grantId: subject.grantId,
    gty: exchange,
    scope: params.scope.split(' ').filter((one) => subject.scopes.has(one)).join(' '),
  });
  token.resourceServer = new provider.ResourceServer(api, {
    scope: 'openid profile email',
    audience: api,
    accessTokenTTL: 900,
    accessTokenFormat: 'jwt',
    jwt: formats.ES256,
  });
  ctx.oidc.entity('AccessToken', token);
  ctx.body = {
    access_token: await token.save(),
    issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
    expires_in: token.expiration,
    scope: token.scope,
    token_type: token.tokenType,
  };
}

provider.registerGrantType(exchange, exchanging, ['subject_token', 'subject_token_type', 'scope']);

async function beginFamily(found, kind) {
  const grant = new provider.Grant({ accountId: 'ada', clientId: found.clientId });
  grant.addOIDCScope('openid offline_access');
  const grantId = await grant.save();
  return new provider[kind]({
    accountId: 'ada',
    client: found,
    grantId,
    gty: 'authorization_code',
    authTime: Math.floor(Date.now() / 1000),
    scope: 'openid offline_access',
    expiresWithSession: false,
    ...(kind === 'RefreshToken' ? { resource: api } : {}),
  }).save();
}

provider.use(async (ctx, next) => {
  if (ctx.path !== '/begin-families') return next();
  const found = await provider.Client.find('ES256');
  const tokens = await Promise.all(Array.from({ length: Number(ctx.query.count) }, () => beginFamily(found, ctx.query.kind ?? 'RefreshToken')));
  ctx.body = tokens.join('\n');
});

provider.listen(port, '127.0.0.1', () => console.log('ready'));
