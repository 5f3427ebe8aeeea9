// An issuer by oidc-provider, which is certified, with its own pages for signing in. Arguments: the folder in which
// it is installed, the address to come back to, the client's id and secret. Prints its address.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const [folder, back, client_id, client_secret] = process.argv.slice(2);
const { Provider } = await import(createRequire(`${folder}/`).resolve('oidc-provider'));
const server = createServer();
server.listen(0, '127.0.0.1', () => {
  // Another site than 127.0.0.1, to a browser.
  const issuer = `http://localhost:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id, client_secret, redirect_uris: [back], response_types: ['code'], grant_types: ['authorization_code'] }],
    // A login is an account; only the user info tells its address.
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: `account of ${id}`, email: id, email_verified: true }) }),
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    pkce: { required: () => true },
    cookies: { keys: ['of this test'] },
  });
  server.on('request', provider.callback());
  console.log(issuer);
});
