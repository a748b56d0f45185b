// The page: a list of places to stay, big enough that rendering it takes some 20 to 50 ms.
//
// Plain `createElement`, so that no build step is needed. The data is made up from a seed: the same
// request gives the same page on every worker, which lets a test compare them byte by byte.
'use strict';

const React = require('react');

const h = React.createElement;

const CITIES = ['Lisbon', 'Osaka', 'Quito', 'Tartu', 'Hobart', 'Ghent', 'Accra', 'Hanoi'];
const KINDS = ['Loft', 'Cabin', 'Houseboat', 'Studio', 'Farmhouse', 'Flat'];
const EXTRAS = ['Wifi', 'Kitchen', 'Washer', 'Desk', 'Garden', 'Bicycles', 'Sauna', 'Balcony'];
const OPINIONS = [
  'Quiet at night, and five minutes from the station.',
  'The kitchen had everything; we cooked each evening.',
  'Exactly as in the pictures & the host answered at once.',
  'Small, but bright. We would come back.',
];

// A generator of numbers below `end` that depends on the seed alone (a linear congruence with the
// constants of Numerical Recipes; good enough for made-up data).
function numbers(seed) {
  let state = seed >>> 0;
  return (end) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * end);
  };
}

// `count` places, the same for the same seed.
function places(seed, count) {
  const below = numbers(seed);
  return Array.from({ length: count }, (_, id) => ({
    id,
    city: CITIES[below(CITIES.length)],
    kind: KINDS[below(KINDS.length)],
    price: 40 + below(260),
    stars: 1 + below(5),
    extras: EXTRAS.filter(() => below(2) === 0),
    opinions: OPINIONS.filter(() => below(2) === 0),
  }));
}

const Currency = React.createContext('EUR');

function Price({ amount }) {
  const currency = React.useContext(Currency);
  const text = React.useMemo(() => `${amount.toFixed(2)} ${currency}`, [amount, currency]);
  return h('strong', { className: 'price' }, text);
}

function Stars({ count }) {
  const star = (n) => h('i', { key: n, className: n < count ? 'star full' : 'star' }, '★');
  return h('span', { className: 'stars', title: `${count} of 5` }, [0, 1, 2, 3, 4].map(star));
}

function Extras({ names }) {
  return h('ul', { className: 'extras' }, names.map((name) => h('li', { key: name }, name)));
}

function Opinions({ texts }) {
  const quote = (text, n) => h('blockquote', { key: n }, h('p', null, text));
  return h('section', { className: 'opinions' }, texts.map(quote));
}

function Place({ place }) {
  const label = React.useId();
  return h(
    'article',
    { 'aria-labelledby': label, 'data-id': place.id, style: { order: place.id, flexGrow: 1 } },
    h('h2', { id: label }, `${place.kind} in ${place.city}`),
    h(Stars, { count: place.stars }),
    h(Price, { amount: place.price }),
    h(Extras, { names: place.extras }),
    h(Opinions, { texts: place.opinions }),
    h('a', { href: `/places/${place.id}?city=${encodeURIComponent(place.city)}` }, 'Look inside'),
  );
}

// What others looked at. `names` is a list, or the promise of one: then this part of a streamed page
// comes when the promise is kept, and the page without it goes out before.
function Recent({ names }) {
  const list = names instanceof Promise ? React.use(names) : names;
  return h('ul', { className: 'recent' }, list.map((name) => h('li', { key: name }, name)));
}

function Page({ seed, count, recent }) {
  const list = places(seed, count);
  return h(
    'html',
    { lang: 'en' },
    h('head', null, h('meta', { charSet: 'utf-8' }), h('title', null, `${count} places to stay`)),
    h(
      'body',
      null,
      h('h1', null, 'Places to stay'),
      h(
        Currency.Provider,
        { value: 'EUR' },
        h('main', null, list.map((place) => h(Place, { key: place.id, place }))),
      ),
      h(React.Suspense, { fallback: h('p', null, 'Looking …') }, h(Recent, { names: recent })),
    ),
  );
}

module.exports = { CITIES, Page };
